"""Which axes of parallelism, and options beside them, are fastest on an array."""
