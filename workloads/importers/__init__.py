"""Readers that turn files into networks."""
