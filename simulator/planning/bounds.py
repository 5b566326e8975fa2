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
from simulator.planning.chain import Chain
from simulator.planning.layouts import first_cores, tables_of
from simulator.planning.lifting import leaves_of, powers_of_two
from simulator.planning.states import few_runs, is_state
from simulator.planning.tables import Tables
from simulator.planning.tails import tail_bound_s
from simulator.planning.work_bound import work_bound_s
from workloads import Network, partition_graph

EVERY_PLAN = "any plan: the step's work, spread over all devices without loss"
LAYOUTS = "plans that treat the first 1, 2, 4, ... {} cores alike and leave the others idle"
FEW_RUNS = LAYOUTS + ", with at most {} changes of a layer's type from level to level"
MOST_LEVELS = 7
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

    The least over all numbers of cores: a number whose work alone takes longer
    is not gone through.
    """
    device, most = array.group.kinds[0][0], array.group.size
    cores = first_cores(array, device, most)
    if execution.model == "published" or len(array.group.kinds) > 1 or cores is None:
        return None
    if cores.levels > MOST_LEVELS or (device.units is not None and execution.overlap):
        return None  # the tables have one operator after the other
    tables = tables_of(network, batch, cores, execution, hollow=True)
    if sum(len(costs.states) ** 2 for costs in tables.nodes) > MOST_WORK:
        return None
    complete = all(costs.states.complete for costs in tables.nodes)
    seconds = _of_tables(tables)
    for _, size in powers_of_two(array):
        seconds = min(seconds, _of_size(network, array, batch, execution, device, size, seconds))
    covers = LAYOUTS.format(most) if complete else FEW_RUNS.format(most, few_runs(cores.levels) - 1)
    return StepBound(seconds, covers)


def _of_size(
    network: Network,
    array: Array,
    batch: int,
    execution: Execution,
    device: Device,
    size: int,
    enough_s: float,
) -> float:
    """The bound of so many cores, unless it surely is no less than ``enough_s``."""
    cores = first_cores(array, device, size)
    if cores is None:
        return enough_s
    tables = tables_of(network, batch, cores, execution, hollow=True)
    if tables.products_s >= enough_s:
        return enough_s
    return _of_tables(tables)


def _of_tables(tables: Tables) -> float:
    """The better one of two bounds on layouts."""
    chain = Chain(tables)
    return max(chain.best()[0].bound_s, tail_bound_s(chain))


def is_layout(network: Network, plan: Plan, array: Array) -> bool:
    """Whether a plan is one of those that ``layouts_bound`` covers."""
    group, split = array.group, plan.root
    (device, _), *others = group.kinds
    if others or plan.updates:
        return False
    while split is not None and split.idle and split.working == (0,):
        group, split = group.halves()[0], split.halves[0]
    levels: list[Split] = []
    while split is not None:
        if len(split.halves) == 2 and split.halves[0] != split.halves[1]:
            return False
        if {partition.share for partition in split.partitions} != {0.5}:
            return False
        levels.append(split)
        split = split.halves[0]
    of_nodes = zip(*(one.types for one in levels), strict=True)
    return leaves_of(group, device) == 1 << len(levels) and all(
        all(one in USUAL for one in types) and is_state(usual(node), types)
        for node, types in zip(partition_graph(network), of_nodes, strict=bool(levels))
    )
