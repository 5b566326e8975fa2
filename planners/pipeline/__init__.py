"""Pipelines: stages of a network on an array, and planners of stages from measured profiles.

PipeDream's planner is in ``pipedream.py``, Phaze's in ``phaze.py``, the split with the least
maximum load in ``max_load.py``. These know neither arrays nor the simulator: a profile goes
in (from a file, or made from a device's roofline), stages and their seconds come out.
"""
