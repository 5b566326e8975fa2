"""How a network is split over an array: planners, plans and what they predict."""

from planners.axes.asked import AXES, Axes
from planners.axes.planned import planned_by_axes
from planners.errors import PlanError
from planners.objective import OBJECTIVES, TIME, TRAFFIC, Objective
from planners.partition import Communication, Partition, PartitionType
from planners.place import Place
from planners.plan import Pipeline, Plan, Stage
from planners.prediction import predict
from planners.registry import (
    BASELINES,
    JUDGED,
    PLANNERS,
    Planner,
    is_built_in,
    load_planner,
    planner_name,
    planner_names,
)
from planners.split import Split
from planners.staging import Staging, planned_in_stages
from planners.updates import Update

__all__ = [
    "AXES",
    "BASELINES",
    "JUDGED",
    "OBJECTIVES",
    "PLANNERS",
    "TIME",
    "TRAFFIC",
    "Axes",
    "Communication",
    "Objective",
    "Partition",
    "PartitionType",
    "Pipeline",
    "Place",
    "Plan",
    "PlanError",
    "Planner",
    "Split",
    "Stage",
    "Staging",
    "Update",
    "is_built_in",
    "load_planner",
    "planned_by_axes",
    "planned_in_stages",
    "planner_name",
    "planner_names",
    "predict",
]
