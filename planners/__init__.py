"""How a network is split over an array: planners, plans and what they predict."""

from planners.axes.degrees import AXES, Axes
from planners.axes.planner import planned_by_axes
from planners.cost.objective import OBJECTIVES, TIME, TRAFFIC, Objective
from planners.cost.prediction import predict, uncharged_s
from planners.errors import PlanError
from planners.partition import Communication, Partition, PartitionType
from planners.pipeline.staging import Staging, planned_in_stages
from planners.plan import Pipeline, Place, Plan, Stage
from planners.plan.split import Split
from planners.plan.updates import Update
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
