"""HyPar (Song et al., HPCA 2019): data or model parallel per layer and level, least traffic."""

from __future__ import annotations

from dataclasses import replace

from hardware import Array
from planners.cost.objective import TIME, Objective
from planners.hierarchy import plan_hierarchy
from planners.partition import II, I
from planners.plan import Plan
from workloads import Network


def hypar(network: Network, array: Array, batch: int, objective: Objective = TIME) -> Plan:
    """The cheapest mix of types I and II by communication alone, level by level from the top.

    The communication table is the objective's: ``printed`` is the paper's and
    that of the AccPar authors' program, ``plotted`` the one its figures follow.
    HyPar does not price computing, so under ``time`` only the seconds of its
    traffic count; shares follow the number of accelerators.
    """
    return plan_hierarchy(
        "hypar",
        network,
        array,
        batch,
        replace(objective, computing=False),
        lambda node: (I, II),
    )
