"""Layouts of like cores: the likely best ones, in order."""

from __future__ import annotations

from collections.abc import Sequence

from hardware import Array, Device
from planners import Plan
from planners.partition import USUAL, I, PartitionType
from simulator.search.candidates import leaves_of
from simulator.search.relaxation import Chain
from simulator.search.states import Types
from simulator.search.tables import Cores

Layout = tuple[Cores, tuple[Types, ...]]
"""Which cores work, and the types of every node, outermost first."""


def layout_of(plan: Plan, array: Array) -> Layout | None:
    """The first 2^j cores of a kind, halved alike all the way down; None of any other plan."""
    group, split, first = plan.group(array), plan.root, 0
    while split is not None and split.idle and len(split.working) == 1:
        (working,) = split.working
        first += working * group.halves()[0].size
        group, split = group.halves()[working], split.halves[working]
    (device, _), *others = group.kinds
    cores = first_cores(array, device, group.size)
    if others or plan.updates or cores is None or cores.first != first:
        return None
    levels: list[Sequence[PartitionType]] = []
    while split is not None:
        if len(split.halves) == 2 and split.halves[0] != split.halves[1]:
            return None
        if {partition.share for partition in split.partitions} != {0.5}:
            return None
        levels.append(split.types)
        split = split.halves[0]
    if group.size != 1 << len(levels):
        return None
    types: tuple[Types, ...] = tuple(zip(*levels, strict=True)) or ((),) * len(plan.nodes)
    return (cores, types) if all(one in USUAL for of in types for one in of) else None


MOST_CORES = 1 << 10
"""Of one kind; more are planned by the other planners alone."""


def first_cores(array: Array, device: Device, size: int) -> Cores | None:
    """The first ``size`` cores of a kind; None unless they halve into alike ones all the way."""
    most = leaves_of(array.group, device)
    if size & (size - 1) or most & (most - 1) or size > MOST_CORES:
        return None
    first = array.first
    for other, _ in array.group.kinds:
        if other == device:
            break
        first += leaves_of(array.group, other)
    return Cores(array, device, first, size.bit_length() - 1)


def layouts(chain: Chain) -> list[tuple[int, ...]]:
    """Layouts by the numbers of their states, likely ones first, each once.

    Those of the chain's weights, and all of samples alone.
    """
    found = [one.picks for one in chain.best()]
    samples = (I,) * chain.tables.cores.levels
    if all(samples in costs.states.numbers for costs in chain.nodes):
        found.append(tuple(costs.states.numbers[samples] for costs in chain.nodes))
    return list(dict.fromkeys(found))
