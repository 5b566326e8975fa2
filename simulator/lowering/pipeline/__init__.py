"""Training steps in stages: what each stage does, sends and sums."""
