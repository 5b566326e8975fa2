"""Model parallelism: every layer split along its inputs, at every level (HyPar's "mp" bars)."""

from __future__ import annotations

from hardware import Array
from planners.cost.objective import TIME, Objective
from planners.hierarchy import plan_hierarchy
from planners.partition import II
from planners.plan import Plan
from workloads import Network


def model_parallel(network: Network, array: Array, batch: int, objective: Objective = TIME) -> Plan:
    """Type II everywhere; the objective only prices the result."""
    return plan_hierarchy("model_parallel", network, array, batch, objective, lambda node: (II,))
