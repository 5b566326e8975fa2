"""Cores with unlike units: in which order they do what, and how long that takes."""
