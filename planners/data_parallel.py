"""Data parallelism: every layer split along the batch, at every level."""

from __future__ import annotations

from hardware import Array
from planners.cost.objective import TIME, Objective
from planners.hierarchy import plan_hierarchy
from planners.partition import I
from planners.plan import Plan
from workloads import Network


def data_parallel(network: Network, array: Array, batch: int, objective: Objective = TIME) -> Plan:
    """Type I everywhere; the objective only prices the result."""
    return plan_hierarchy("data_parallel", network, array, batch, objective, lambda node: (I,))
