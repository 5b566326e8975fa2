"""Running cases: each once, on cores or a cluster, kept in a store."""
