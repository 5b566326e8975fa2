"""A plan as a value: how each layer is split, stage by stage, and its JSON."""

from planners.plan.plan import COPIES, MOST_TURNS, Pipeline, Place, Plan, Stage
