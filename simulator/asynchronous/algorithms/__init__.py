"""Ways to train together, one file each."""
