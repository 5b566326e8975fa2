"""Plans worth judging: those of the registered planners, also with one share, and on subsets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from hardware import Array, Device, Group, SpecError
from planners import BASELINES, PLANNERS, Objective, Plan, PlanError, Planner, Split
from simulator.planning.lifting import alone, leaves_of, lifted, shared
from workloads import Network


def planned(
    planner: Planner, network: Network, array: Array, batch: int, objective: Objective
) -> Plan | None:
    """What a planner answers; None where it cannot plan this, or the array cannot be."""
    try:
        return planner(network, array, batch, objective)
    except (PlanError, SpecError):
        return None


def of_planners(network: Network, array: Array, batch: int, objective: Objective) -> Iterator[Plan]:
    """Every built-in planner's plan for a whole array."""
    for planner in (PLANNERS | BASELINES).values():
        plan = planned(planner, network, array, batch, objective)
        if plan is not None:
            yield plan


def with_one_share(plan: Plan, group: Group) -> Iterator[Plan]:
    """The types of a plan with one share for all nodes, where kinds of devices part.

    In proportion to peaks, to HBM bandwidths, to numbers of devices, and to the
    plan's own shares in the mean.
    """
    if len(group.kinds) > 1 and plan.root is not None:
        for shares in proportions(group, plan.root):
            yield replace(plan, root=shared(plan.root, group, shares))


def proportions(group: Group, split: Split | None = None) -> list[tuple[float, ...]]:
    """Shares of each kind of device, by what they have, and as a plan has them in the mean."""
    kinds = [replace(group, kinds=(kind,)) for kind in group.kinds]
    found = [
        tuple(kind.peak_flops_per_s for kind in kinds),
        tuple(
            kind.cores * device.hbm_bytes_per_s / device.cores_per_chip
            for kind, (device, _) in zip(kinds, group.kinds, strict=True)
        ),
        tuple(float(leaves_of(group, device)) for device, _ in group.kinds),
    ]
    if split is not None:
        found.append(mean_shares(group, split, 1.0))
    return [shares for shares in found if sum(shares) > 0]


def mean_shares(group: Group, split: Split | None, whole: float) -> tuple[float, ...]:
    """What each kind gets of ``whole`` if every split parts it as its nodes do in the mean."""
    if len(group.kinds) == 1 or split is None:
        return (whole,)
    mean = math.fsum(partition.share for partition in split.partitions) / len(split.partitions)
    halves = zip(group.halves(), (split.halves[0], split.halves[-1]), strict=True)
    parts = (whole * mean, whole * (1.0 - mean))
    return tuple(
        share
        for (half, below), part in zip(halves, parts, strict=True)
        for share in mean_shares(half, below, part)
    )


def on_subset(
    network: Network, array: Array, batch: int, objective: Objective, device: Device, size: int
) -> Iterator[Plan]:
    """Every built-in planner's plan for so many leaves of one kind, all others idle."""
    part = alone(array, device, size)
    if part is None:
        return
    for planner in (PLANNERS | BASELINES).values():
        plan = planned(planner, network, part, batch, objective)
        if plan is not None:
            root = lifted(plan.root, array.group, device, size, len(plan.nodes))
            yield replace(plan, root=root)
