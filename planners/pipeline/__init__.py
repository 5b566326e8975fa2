"""Pipelines: stages of a network on an array, and planners of stages from measured profiles.

PipeDream's planner is in ``pipedream.py``, Phaze's in ``phaze.py``, the split with the least
maximum load in ``max_load.py``. These know neither arrays nor the simulator: a profile goes
in (from a file, or made from a device's roofline), stages and their seconds come out.
"""

from planners.pipeline.cost_models import (
    COST_MODELS,
    CostModel,
    Level,
    Paper,
    Repo,
    parse_hierarchy,
)
from planners.pipeline.load_graph import LoadGraph, LoadNode, read_load_graph
from planners.pipeline.max_load import LoadedDevice, MaxLoad, max_load
from planners.pipeline.phaze import Phaze, PhazeLayers, Training, layers_of, phaze, read_phaze
from planners.pipeline.pipedream import ProfiledPipeline, ProfiledStage, Rules, plan_stages
from planners.pipeline.profile import Profile, ProfileNode, planned_part, read_profile
from planners.pipeline.states import States, states_of

__all__ = [
    "COST_MODELS",
    "CostModel",
    "Level",
    "LoadGraph",
    "LoadNode",
    "LoadedDevice",
    "MaxLoad",
    "Paper",
    "Phaze",
    "PhazeLayers",
    "Profile",
    "ProfileNode",
    "ProfiledPipeline",
    "ProfiledStage",
    "Repo",
    "Rules",
    "States",
    "Training",
    "layers_of",
    "max_load",
    "parse_hierarchy",
    "phaze",
    "plan_stages",
    "planned_part",
    "read_load_graph",
    "read_phaze",
    "read_profile",
    "states_of",
]
