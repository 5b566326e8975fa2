"""What a step takes at least: a bound on the whole step, and which plans it covers.

Two bounds. One covers every plan there is: the step's work, spread over all
devices without any loss. The other covers layouts: plans that use the first
2^j cores of one kind, halve them alike all the way down, and leave the rest
idle. It counts every exchange that a core waits for, and is far nearer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from hardware import Array
from planners import Plan
from planners.partition import usual
from planners.plan.updates import bucket_words
from simulator.engine.collecting import no_collecting
from simulator.lowering.execution import Execution
from simulator.planning.given import layout_of
from simulator.planning.hollow import filled
from simulator.planning.layout_search import FEW_CORES
from simulator.planning.layouts import first_cores, tables_of
from simulator.planning.least import Size, at_most_s, least_s
from simulator.planning.lifting import leaves_of
from simulator.planning.states import MANY_LEVELS, States, is_state
from simulator.planning.tables import Cores
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


@no_collecting()
def step_bound(
    network: Network,
    array: Array,
    batch: int,
    execution: Execution,
    *,
    layout: bool,
    bucket_bytes: float | None = None,
    worth_s: float = 0.0,
) -> StepBound | None:
    """The best bound that covers a plan, which is a ``layout`` (``is_layout``) or is not.

    ``array`` is as the execution model has it (``execution.planned``), ``bucket_bytes`` what the
    plan says: then layouts with such buckets are covered. A bound of layouts that is below
    ``worth_s`` is not looked for to the end. None where nothing takes any time.
    """
    found = [StepBound(work_bound_s(network, array, batch, execution), EVERY_PLAN)]
    planned = execution.bucket_bytes is None and bucket_bytes is not None
    if planned:
        execution = replace(execution, bucket_bytes=bucket_bytes)
    if layout and (near := layouts_bound(network, array, batch, execution, worth_s)):
        said = f"{near.covers}, {bucket_words(execution.bucket_of())}"
        found.append(replace(near, covers=said) if planned else near)
    best = max(found, key=lambda bound: bound.seconds)
    return best if best.seconds > 0 else None


def layouts_bound(
    network: Network, array: Array, batch: int, execution: Execution, worth_s: float = 0.0
) -> StepBound | None:
    """What no layout of like cores undercuts; None where it takes too long to find, or is unknown.

    The least over all numbers of cores of each kind; None, too, where the layouts that
    are looked at first show that it is below ``worth_s``.
    """
    first_s = _first_s(network, array, batch, execution)
    if first_s is None or first_s < worth_s:
        return None
    return _of_all(network, array, batch, execution, first_s)


@lru_cache(maxsize=64)
def _first_s(network: Network, array: Array, batch: int, execution: Execution) -> float | None:
    """The bound of the layouts that the search looks at first; None where none is found."""
    cores = _cores(array)
    if (
        execution.model == "published"
        or any(device.units is not None and execution.overlap for device, _ in array.group.kinds)
        or max(one.levels for one in cores if one) > MOST_LEVELS
        or None in cores
    ):  # with units, the tables have one operator after the other
        return None
    how = network, batch, execution
    if max(_pairs(_size(*how, one, RUNS)) for one in cores if one) > MOST_WORK:
        return None
    return least_s([_size(*how, one) for one in cores if one])


@lru_cache(maxsize=64)
def _of_all(
    network: Network, array: Array, batch: int, execution: Execution, seconds: float
) -> StepBound:
    """That of all layouts that are covered, of which the first have one of so many seconds."""
    cores, how = _cores(array), (network, batch, execution)
    every = [_size(*how, one, RUNS) for one in cores if one]
    levels = max(one.levels for one in cores if one)
    if levels > MANY_LEVELS:
        seconds = at_most_s(every, seconds)
    covers = LAYOUTS.format(1 << levels, " of one kind" if len(array.group.kinds) > 1 else "")
    if 1 << levels > FEW_CORES:
        covers += FILLED.format(FEW_CORES)
    if not all(states.complete for one in every for states in _states(one)):
        covers += FEW_RUNS.format(RUNS - 1)
    return StepBound(seconds, covers)


def _cores(array: Array) -> list[Cores | None]:
    """The first 1, 2, 4, ... cores of each kind; None where they are no such."""
    return [
        first_cores(array, device, 1 << level)
        for device, _ in array.group.kinds
        for level in range(leaves_of(array.group, device).bit_length())
    ]


def _size(
    network: Network, batch: int, execution: Execution, cores: Cores, runs: int | None = None
) -> Size:
    filled = 1 << cores.levels > FEW_CORES
    return Size(tables_of(network, batch, cores, execution, hollow=not filled, runs=runs), filled)


def _pairs(size: Size) -> int:
    """Of nodes' states, with themselves."""
    return sum(len(states) ** 2 for states in _states(size))


def _states(size: Size) -> list[States]:
    return [size.tables.states_of_node(v) for v in range(len(size.tables.graph))]


def is_layout(network: Network, plan: Plan, array: Array) -> bool:
    """Whether a plan is one of those that ``layouts_bound`` covers."""
    layout = layout_of(plan, array)
    if layout is None:
        return False
    cores, types = layout
    return all(
        is_state(usual(node), of_node, RUNS)
        and (1 << cores.levels <= FEW_CORES or filled(node, plan.batch, of_node))
        for node, of_node in zip(partition_graph(network), types, strict=True)
    )
