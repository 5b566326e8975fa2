"""Pipelines planned from measured profiles: PipeDream's, max-load and Phaze's dynamic programs.

Nothing here knows of arrays or of the simulator: a profile goes in (from a file,
or made from a device's roofline), stages and their seconds come out.
"""

from planners.pipedream.costs import COST_MODELS, CostModel, Paper, Repo
from planners.pipedream.hierarchy import Level, parse_hierarchy
from planners.pipedream.load_graph import LoadGraph, LoadNode, read_load_graph
from planners.pipedream.max_load import LoadedDevice, MaxLoad, max_load
from planners.pipedream.phaze import Phaze, PhazeLayers, Training, layers_of, phaze
from planners.pipedream.phaze_file import read_phaze
from planners.pipedream.profile import Profile, ProfileNode
from planners.pipedream.reader import planned_part, read_profile
from planners.pipedream.recurrence import Rules
from planners.pipedream.stages import ProfiledPipeline, ProfiledStage, plan_stages
from planners.pipedream.states import States, states_of

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
