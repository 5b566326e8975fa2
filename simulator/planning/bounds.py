"""What a step takes at least: a bound on the whole step, and which plans it covers.

Two bounds. One covers every plan there is: the step's work, spread over all
devices without any loss. The other covers layouts: plans that use the first
2^j cores of one kind, halve them alike all the way down, and leave the rest
idle. It counts every exchange that a core waits for, and is far nearer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from hardware import Array, Device
from planners import Plan, Split
from planners.buckets import bucket_words
from planners.partition import USUAL, usual
from simulator.lowering.execution import Execution
from simulator.planning.hollow import filled
from simulator.planning.layouts import first_cores, tables_of
from simulator.planning.least import Size, least_s
from simulator.planning.lifting import leaves_of
from simulator.planning.subsets import FEW_CORES
from simulator.planning.states import is_state
from simulator.planning.work_bound import work_bound_s
from workloads import Network, partition_graph

EVERY_PLAN = "any plan: the step's work, spread over all devices without loss"
LAYOUTS = "plans that treat the first 1, 2, 4, ... {} cores{} alike and leave the others idle"
FILLED = ", of more than {} each with a part of every layer"
FEW_RUNS = ", with at most {} changes of a layer's type from level to level"
RUNS = 3
"""Of one type, where a layer has not got all types at all levels."""
MOST_LEVELS = 10
MOST_WORK = 20e6
"""Nodes times pairs of states, up to which layouts are gone through for a bound."""


@dataclass(frozen=True, slots=True)
class StepBound:
    """Seconds that no step of the plans that it covers undercuts."""

    seconds: float
    covers: str

    def gap(self, iteration_s: float) -> float:
        """How far a step lies above, as a fraction of the bound."""
        return iteration_s / self.seconds - 1.0


def step_bound(
    network: Network,
    array: Array,
    batch: int,
    execution: Execution,
    *,
    layout: bool,
    bucket_bytes: float | None = None,
) -> StepBound | None:
    """The best bound that covers a plan, which is a ``layout`` (``is_layout``) or is not.

    ``array`` is as the execution model has it (``execution.planned``), ``bucket_bytes`` what the
    plan says: then layouts with such buckets are covered. None where nothing takes any time.
    """
    found = [StepBound(work_bound_s(network, array, batch, execution), EVERY_PLAN)]
    planned = execution.bucket_bytes is None and bucket_bytes is not None
    if planned:
        execution = replace(execution, bucket_bytes=bucket_bytes)
    if layout and (near := layouts_bound(network, array, batch, execution)) is not None:
        said = f"{near.covers}, {bucket_words(execution.bucket_of())}"
        found.append(replace(near, covers=said) if planned else near)
    best = max(found, key=lambda bound: bound.seconds)
    return best if best.seconds > 0 else None


@lru_cache(maxsize=64)
def layouts_bound(
    network: Network, array: Array, batch: int, execution: Execution
) -> StepBound | None:
    """What no layout of like cores undercuts; None where it takes too long to find, or is unknown.

    The least over all numbers of cores of each kind.
    """
    kinds, sizes = array.group.kinds, list[Size]()
    if execution.model == "published":
        return None
    for device, _ in kinds:
        found = _sizes(network, array, batch, execution, device)
        if not found:
            return None
        sizes += found
    most = max(leaves_of(array.group, device) for device, _ in kinds)
    covers = LAYOUTS.format(most, " of one kind" if len(kinds) > 1 else "")
    if most > FEW_CORES:
        covers += FILLED.format(FEW_CORES)
    if not all(costs.states.complete for one in sizes for costs in one.tables.nodes):
        covers += FEW_RUNS.format(RUNS - 1)
    return StepBound(least_s(sizes), covers)


def _sizes(
    network: Network, array: Array, batch: int, execution: Execution, device: Device
) -> list[Size]:
    """Each power of two of a kind; none where not all are alike, or they are too many."""
    most = leaves_of(array.group, device)
    if most & (most - 1) or most >> MOST_LEVELS > 1:
        return []
    if device.units is not None and execution.overlap:
        return []  # the tables have one operator after the other
    found: list[Size] = []
    for size in (1 << level for level in range(most.bit_length())):
        cores = first_cores(array, device, size)
        if cores is None:
            return []
        all_work = size > FEW_CORES
        how = network, batch, cores, execution
        found.append(Size(tables_of(*how, hollow=not all_work, runs=RUNS), all_work))
    pairs = sum(len(costs.states) ** 2 for costs in found[-1].tables.nodes)
    return found if pairs <= MOST_WORK else []


def is_layout(network: Network, plan: Plan, array: Array) -> bool:
    """Whether a plan is one of those that ``layouts_bound`` covers."""
    group, split, first = array.group, plan.root, 0
    while split is not None and split.idle and len(split.working) == 1:
        (working,) = split.working
        first += working * group.halves()[0].size
        group, split = group.halves()[working], split.halves[working]
    (device, _), *others = group.kinds
    cores = first_cores(array, device, group.size)
    if others or plan.updates or cores is None or cores.first != first:
        return False
    levels: list[Split] = []
    while split is not None:
        if len(split.halves) == 2 and split.halves[0] != split.halves[1]:
            return False
        if {partition.share for partition in split.partitions} != {0.5}:
            return False
        levels.append(split)
        split = split.halves[0]
    of_nodes = zip(*(one.types for one in levels), strict=True)
    return group.size == 1 << len(levels) and all(
        all(one in USUAL for one in types)
        and is_state(usual(node), types, RUNS)
        and (group.size <= FEW_CORES or filled(node, plan.batch, types))
        for node, types in zip(partition_graph(network), of_nodes, strict=bool(levels))
    )
