"""AccPar (Song et al., HPCA 2020): all three types, shares balanced between unlike groups."""

from __future__ import annotations

from hardware import Array
from planners.cost.objective import TIME, Objective
from planners.hierarchy import plan_hierarchy
from planners.partition import USUAL
from planners.plan import Plan
from workloads import Network


def accpar(network: Network, array: Array, batch: int, objective: Objective = TIME) -> Plan:
    """The cheapest mix of types I, II and III, and of IV where a layer has groups or heads.

    Under ``time`` the two sides of a split of unlike devices share each layer
    so that both finish together; under ``traffic`` (the authors' released
    program) the shares follow the number of accelerators.
    """
    return plan_hierarchy(
        "accpar",
        network,
        array,
        batch,
        objective,
        lambda node: USUAL,
        balance=objective.computing,
    )
