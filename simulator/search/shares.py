"""Shares of a split of unlike devices, and sizes of buckets, that the simulator likes best."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from hardware import Array, Group
from planners import TIME, Objective, Plan
from planners.built_in import data_parallel
from simulator.lowering.execution import DEPLOYED, PUBLISHED, Execution
from simulator.search.candidates import (
    alone,
    leaves_of,
    lifted,
    mean_shares,
    planned,
    powers_of_two,
    shared,
    with_one_share,
)
from simulator.search.judge import Judge
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
    return judge.answer(objective, "best_share", "best_share: data parallelism cannot be run")


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
    return judge.answer(objective, "best_subset", "best_subset: data parallelism cannot be run")


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


FACTORS = (1.5, 1.2, 1.08, 1.03)
"""By which a kind's share is made larger or smaller, in turn, as long as that helps."""
MOST_STEPS, MOST_LINES = 40, 150_000
"""Plans that are simulated, and lines of all their programs: about ten seconds."""
MULTIPLES = (1, 8)
"""Of whole samples for each device of a kind: full tiles have no more than 8 rows."""

Shares = tuple[float, ...]


def with_better_shares(judge: Judge) -> None:
    """Judge the best plan with other shares of each kind, all nodes alike."""
    plan, group = judge.best, judge.array.group
    if plan is None:
        return
    shares = mean_shares(group, plan.root, 1.0)
    if sum(share > 0 for share in shares) < 2:  # one kind alone works
        return
    best_s, steps, lines = judge.best_s, judge.evaluations + MOST_STEPS, judge.spent + MOST_LINES
    best_s = min(best_s, judge.seconds(_with(plan, group, shares)))
    kinds = range(len(shares) if len(shares) > 2 else 1)  # more for one of two: less for the other
    for factor in FACTORS:
        for kind in kinds:
            for by in (factor, 1 / factor):
                while judge.evaluations < steps and judge.spent < lines:
                    other = tuple(s * (by if i == kind else 1) for i, s in enumerate(shares))
                    found_s = judge.seconds(_with(plan, group, other))
                    if found_s >= best_s:
                        break
                    shares, best_s = other, found_s
    for other in dict.fromkeys(whole_samples(group, plan.batch, shares)):
        judge.seconds(_with(plan, group, other))


def whole_samples(group: Group, batch: int, shares: Shares) -> Iterator[Shares]:
    """The nearest shares of which each device of one kind has a multiple of some samples.

    Two kinds or more have a share. With 41 samples on some devices and 40 on others all wait for
    the former, and where tiles have 8 rows these do as much as for 48. Other kinds have the rest.
    """
    total = sum(shares)
    for kind, (device, _) in enumerate(group.kinds):
        many = leaves_of(group, device)
        each = batch * shares[kind] / total / many
        for step in MULTIPLES:
            for rounded in (math.floor(each / step), math.ceil(each / step)):
                own = rounded * step * many / batch
                if 0 < own < 1:
                    rest = (1 - own) / (total - shares[kind])
                    yield tuple(own if i == kind else rest * s for i, s in enumerate(shares))


def _with(plan: Plan, group: Group, shares: Shares) -> Plan:
    return replace(plan, root=shared(plan.root, group, shares))


MIB = 2.0**20
SIZES = (0.0, 1 * MIB, 5 * MIB, 100 * MIB)
"""Bytes, besides the usual: each gradient by itself, some, and about all of most networks."""


def sizes_of(execution: Execution) -> tuple[float, ...]:
    """What a plan may say instead of the usual; nothing where a size is asked for, or none used."""
    used = execution.model == "deployed" and not execution.inference
    return SIZES if used and execution.bucket_bytes is None else ()


def with_other_buckets(judge: Judge) -> None:
    """Judge the best plan with buckets of other sizes; of a large step not with all of them."""
    plan, lines = judge.best, judge.spent + MOST_LINES
    if plan is not None:
        for size in sizes_of(judge.execution):
            if judge.spent < lines:
                judge.seconds(replace(plan, bucket_bytes=size))
