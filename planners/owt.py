"""One weird trick (Krizhevsky 2014): convolutions by data, fully connected layers by model."""

from __future__ import annotations

from hardware import Array
from planners.cost.objective import TIME, Objective
from planners.hierarchy import plan_hierarchy
from planners.partition import II, I
from planners.plan import Plan
from workloads import Network


def owt(network: Network, array: Array, batch: int, objective: Objective = TIME) -> Plan:
    """Type I for convolutions, type II for fully connected layers, at every level.

    A linear layer on every position of a sequence uses its weights as often as
    a convolution does, and is treated as one.
    """
    return plan_hierarchy(
        "owt",
        network,
        array,
        batch,
        objective,
        lambda node: (II,) if node.type.fully_connected and node.in_area == 1 else (I,),
    )
