"""Collectives as phases of the interconnect: algorithms, and which one is cheapest."""
