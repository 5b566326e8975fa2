"""In which order micro-batches go through the stages: one file for each schedule."""
