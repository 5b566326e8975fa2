"""How a network is split over an array: planners, plans and what they predict."""

from planners.objective import OBJECTIVES, TIME, TRAFFIC, Objective
from planners.partition import Communication, Partition, PartitionType
from planners.plan import Plan, PlanError, Split
from planners.prediction import predict
from planners.registry import (
    BASELINES,
    PLANNERS,
    Planner,
    is_built_in,
    load_planner,
    planner_name,
    planner_names,
)

__all__ = [
    "BASELINES",
    "OBJECTIVES",
    "PLANNERS",
    "TIME",
    "TRAFFIC",
    "Communication",
    "Objective",
    "Partition",
    "PartitionType",
    "Plan",
    "PlanError",
    "Planner",
    "Split",
    "is_built_in",
    "load_planner",
    "planner_name",
    "planner_names",
    "predict",
]
