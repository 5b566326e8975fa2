"""Asynchronous training runs: one, several, in a grid, and of pipelines."""
