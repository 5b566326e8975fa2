"""In which order micro-batches go through the stages; the schedules are in ``registry.py``."""
