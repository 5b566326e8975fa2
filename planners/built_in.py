"""The planners that choose types by hand or by the papers' searches, each a few words long.

Each hands the hierarchical search the types that a layer may take; shares follow the number
of accelerators unless it says otherwise.
"""

from __future__ import annotations

from dataclasses import replace

from hardware import Array
from planners.cost.objective import TIME, Objective
from planners.hierarchy.search import plan_hierarchy
from planners.partition import II, USUAL, I
from planners.plan import Plan
from workloads import Network


def data_parallel(network: Network, array: Array, batch: int, objective: Objective = TIME) -> Plan:
    """Type I everywhere: every layer along the batch; the objective only prices the result."""
    return plan_hierarchy("data_parallel", network, array, batch, objective, lambda node: (I,))


def model_parallel(network: Network, array: Array, batch: int, objective: Objective = TIME) -> Plan:
    """Type II everywhere: every layer along its inputs (HyPar's "mp" bars); only priced."""
    return plan_hierarchy("model_parallel", network, array, batch, objective, lambda node: (II,))


def owt(network: Network, array: Array, batch: int, objective: Objective = TIME) -> Plan:
    """One weird trick (Krizhevsky 2014): convolutions by type I, fully connected layers by II.

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


def hypar(network: Network, array: Array, batch: int, objective: Objective = TIME) -> Plan:
    """HyPar (Song et al., HPCA 2019): the mix of types I and II with the least traffic.

    The communication table is the objective's: ``printed`` is the paper's and
    that of the AccPar authors' program, ``plotted`` the one its figures follow.
    HyPar does not price computing, so under ``time`` only the seconds of its traffic count.
    """
    own = replace(objective, computing=False)
    return plan_hierarchy("hypar", network, array, batch, own, lambda node: (I, II))


def accpar(network: Network, array: Array, batch: int, objective: Objective = TIME) -> Plan:
    """AccPar (Song et al., HPCA 2020): types I, II and III, and IV where a layer has groups.

    Under ``time`` the two sides of a split of unlike devices share each layer
    so that both finish together; under ``traffic`` (the authors' released
    program) the shares follow the number of accelerators.
    """
    balance = objective.computing
    return plan_hierarchy(
        "accpar", network, array, batch, objective, lambda node: USUAL, balance=balance
    )
