"""Pipelines over kinds of devices: what stages cost on each, and the best that are found."""
