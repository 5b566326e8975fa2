"""Plans worth judging, and plans of some devices as plans of a whole array, the others idle."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hardware import Array, Device, Group, SpecError
from hardware.topology import Tier
from planners import BASELINES, PLANNERS, Objective, Partition, Plan, PlanError, Planner, Split
from planners.partition import I, PartitionType
from simulator.search.states import Types
from workloads import Network


def powers_of_two(array: Array) -> Iterator[tuple[Device, int]]:
    """Subsets of one kind, the largest first: all of its leaves, then each power of two.

    Leaves are what the array's bisection ends in, boards or cores. The whole
    array is no subset.
    """
    for device, _ in array.group.kinds:
        most = leaves_of(array.group, device)
        sizes = {most, *(1 << i for i in range(most.bit_length()))}
        for size in sorted(sizes, reverse=True):
            if size < array.group.size:
                yield device, size


def whole(array: Array) -> Iterator[tuple[Device, int]]:
    """The array as such a subset, if it has one kind."""
    if len(array.group.kinds) == 1:
        yield array.group.kinds[0][0], array.group.size


def leaves_of(group: Group, device: Device) -> int:
    """How many leaves of that kind a group has."""
    each = zip(group.kinds, group.leaves, strict=True)
    return sum(many for (one, _), many in each if one == device)


def alone(array: Array, device: Device, size: int) -> Array | None:
    """So many leaves of one kind as an array of their own; None where boards do not come so.

    Below one board it is a board of fewer chips, or of one chip with fewer cores.
    """
    group = array.group
    each = leaves_of(Group(((device, 1),), leaf=group.leaf), device)
    if size % each == 0:
        part = device, size // each
    elif size < device.cores_per_chip:
        part = device.with_cores(size), 1
    elif size % device.cores_per_chip == 0 and size < each:
        part = replace(device, chips=size // device.cores_per_chip), 1
    else:
        return None
    found = Group((part,), leaf=group.leaf)
    chips = found.cores // part[0].cores_per_chip
    nodes = chips if array.topology.joins == "chips" else found.units
    levels = tuple(_some_of(array.topology.levels, nodes))
    topology = replace(array.topology, shape=(), levels=levels)
    return Array(f"{array.name}, {size} of {device.name}", "", found, topology=topology)


def _some_of(levels: Sequence[Tier], nodes: int) -> Iterator[Tier]:
    """Tiers that join so many nodes: where they do not fill a unit, a power of two of each.

    Of two nodes of three chips 4 are two of each, of two racks of 72 also 128 are 64 of each.
    """
    whole = part = 1
    for tier in levels:
        members, shape, rails = tier.members or nodes, tier.shape, tier.rails
        if nodes % members:
            members, shape = min(nodes, 1 << members.bit_length() - 1), ()
        if rails:
            rails = max(1, rails * part // whole)
        cables = tuple(pair for pair in tier.cables if max(pair) < members)
        kind = "switch" if tier.cables and not cables else tier.kind  # one node alone
        yield replace(tier, kind=kind, members=members, rails=rails, shape=shape, cables=cables)
        whole, part, nodes = whole * (tier.members or nodes), part * members, nodes // members


def lifted(
    split: Split | None, group: Group, device: Device, size: int, nodes: int
) -> Split | None:
    """The plan ``split`` of ``size`` leaves of one kind for a group that has as many, or more.

    The first half works alone where it has enough of that kind, else the
    second; where neither has, both do, each with half of the leaves: of 12
    devices 8 are two of every three. Who sits out has a share of 0 of everything.
    """
    if group.size == size:
        return split
    first, second = group.halves()
    for working, half in enumerate((first, second)):
        if leaves_of(half, device) >= size:
            below = [idle(first, nodes), idle(second, nodes)]
            below[working] = lifted(split, half, device, size, nodes)
            share = 0.0 if working else 1.0
            cost = split.cost if split else 0.0
            return Split((Partition(I, share),) * nodes, cost, tuple(below), idle=True)
    if split is None:
        raise ValueError(f"no {size} leaves of {device.name} in this group")
    ends = (split.halves[0], split.halves[-1])
    one = lifted(ends[0], first, device, size // 2, nodes)
    if first == second and ends[0] is ends[1]:
        return replace(split, halves=(one,))
    return replace(split, halves=(one, lifted(ends[1], second, device, size // 2, nodes)))


def idle(group: Group, nodes: int) -> Split | None:
    """What a group that has nothing to do is told."""
    if group.size == 1:
        return None
    first, second = group.halves()
    below = idle(first, nodes)
    halves = (below,) if first == second else (below, idle(second, nodes))
    return Split((Partition(I, 0.5),) * nodes, 0.0, halves)


def shared(split: Split | None, group: Group, shares: Sequence[float]) -> Split | None:
    """The same types, and one share for all nodes wherever kinds of devices part.

    ``shares`` are those of each kind of ``group`` in a whole; they need not sum to 1.
    """
    if split is None or len(group.kinds) == 1:
        return split
    first, second = group.halves()
    of_first, of_second = shares[: len(first.kinds)], shares[len(first.kinds) :]
    whole = sum(shares)
    share = sum(of_first) / whole if whole else 0.5
    ends = (split.halves[0], split.halves[-1])
    return Split(
        tuple(Partition(partition.type, share) for partition in split.partitions),
        split.cost,
        (shared(ends[0], first, of_first), shared(ends[1], second, of_second)),
        idle=share in (0.0, 1.0),
    )


def split_of(types: Sequence[Types]) -> Split | None:
    """The plan in which every node has these types, all halves alike."""
    even = [Partition(kind, 0.5) for kind in PartitionType]
    below: Split | None = None
    for level in reversed(range(len(types[0]))):
        below = Split(tuple(even[of_node[level]] for of_node in types), 0.0, (below,))
    return below


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


def proportions(group: Group, split: Split) -> list[tuple[float, ...]]:
    """Shares of each kind of device, by what they have, and as a plan has them in the mean."""
    kinds = [replace(group, kinds=(kind,)) for kind in group.kinds]
    found = [
        tuple(kind.peak_flops_per_s for kind in kinds),
        tuple(
            kind.cores * device.hbm_bytes_per_s / device.cores_per_chip
            for kind, (device, _) in zip(kinds, group.kinds, strict=True)
        ),
        tuple(float(leaves_of(group, device)) for device, _ in group.kinds),
        mean_shares(group, split, 1.0),
    ]
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
    for plan in of_planners(network, part, batch, objective):
        yield replace(plan, root=lifted(plan.root, array.group, device, size, len(plan.nodes)))
