"""Data parallelism as a practitioner runs it: what any planner should be compared with.

The registered baseline gives every device as much as any other. Nobody does so
on unlike devices, or where half of them are faster by themselves.
"""

from __future__ import annotations

import math
from dataclasses import replace

from hardware import Array
from planners import TIME, Objective, Plan, PlanError
from planners.built_in import data_parallel
from planners.hierarchy.fixed_types import priced
from simulator.lowering.execution import DEPLOYED, PUBLISHED, Execution
from simulator.planning.candidates import planned, with_one_share
from simulator.planning.judge import Judge
from simulator.planning.lifting import alone, lifted, powers_of_two
from simulator.planning.shares import with_better_shares
from workloads import Network

FAIRER = ("best_share", "best_subset")
"""The two, by name."""


def best_share(
    network: Network,
    array: Array,
    batch: int,
    objective: Objective = TIME,
    *,
    execution: Execution | None = None,
    enough_s: float = math.inf,
) -> Plan:
    """Data parallelism on all devices, with the best single share for each kind of them.

    PlanError where none of the shares it begins with takes less than ``enough_s``.
    """
    judge, plan = _start(network, array, batch, objective, execution, enough_s)
    for other in with_one_share(plan, array.group):
        judge.seconds(other)
    with_better_shares(judge)
    return _best(judge, objective, "best_share")


def best_subset(
    network: Network,
    array: Array,
    batch: int,
    objective: Objective = TIME,
    *,
    execution: Execution | None = None,
) -> Plan:
    """Data parallelism on the best power of two of one kind of device, or on all of them."""
    judge, _ = _start(network, array, batch, objective, execution)
    for device, size in powers_of_two(array):
        part = alone(array, device, size)
        some = None if part is None else planned(data_parallel, network, part, batch, objective)
        if some is not None:
            root = lifted(some.root, array.group, device, size, len(some.nodes))
            judge.seconds(replace(some, root=root))
    return _best(judge, objective, "best_subset")


def _start(
    network: Network,
    array: Array,
    batch: int,
    objective: Objective,
    execution: Execution | None,
    enough_s: float = math.inf,
) -> tuple[Judge, Plan]:
    """A judge that has seen the registered baseline, and that."""
    if execution is None:
        execution = DEPLOYED if array.group.leaf == "core" else PUBLISHED
    judge = Judge(network, array, execution, best_s=enough_s)
    plan = data_parallel(network, array, batch, objective)
    judge.seconds(plan)
    return judge, plan


def _best(judge: Judge, objective: Objective, name: str) -> Plan:
    best = judge.best or judge.smallest
    if best is None:
        why = f": {judge.refused}" if judge.refused else ""
        raise PlanError(f"{name}: data parallelism cannot be run on {judge.array.name!r}{why}")
    return replace(priced(judge.network, judge.array, best, objective), planner=name)
