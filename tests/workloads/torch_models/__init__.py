"""Models written in plain torch, for what imports them."""
