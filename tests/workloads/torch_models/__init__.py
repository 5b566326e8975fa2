"""Models written in plain torch, for what imports them (torch is not in the test extra)."""
