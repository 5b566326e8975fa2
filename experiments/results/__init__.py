"""What commands print and what ``import accelarray`` returns: each result told once."""
