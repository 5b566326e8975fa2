"""What a step takes at least: a bound on the whole step, and which plans it covers.

Two bounds. One covers every plan there is: the step's work, spread over all
devices without any loss. The other covers layouts: plans that use the first
2^j cores of one kind, halve them alike all the way down, and leave the rest
idle. It counts every exchange that a core waits for, and is far nearer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from hardware import Array, Group
from hardware.array import cores_in
from planners import Plan
from planners.order import Phase
from planners.order import flops as flops_of
from planners.partition import Shard, usual
from planners.plan.updates import bucket_words
from planners.sizing import sizing, whole
from simulator.cost.roofline import Core, core_of, flops, traffic
from simulator.cost.training_operators import operators
from simulator.lowering.execution import Execution
from simulator.search.candidates import leaves_of
from simulator.search.layouts import first_cores, layout_of
from simulator.search.relaxation import Chain
from simulator.search.states import FEW_CORES, MANY_LEVELS, States, filled, is_state
from simulator.search.tables import Cores, Tables
from workloads import Network, partition_graph

MIXES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Weights that are tried: from those of peaks to those of HBM bandwidths."""
PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.GRADIENT, Phase.UPDATE)


def work_bound_s(network: Network, array: Array, batch: int, execution: Execution) -> float:
    """Seconds that no plan of any types and shares undercuts, on all devices or on some."""
    if execution.model == "published":
        phases = 1 if execution.inference else 3
        return _published_s(network, array.group, batch, phases)
    return _deployed_s(network, array.group, batch, execution)


def _published_s(network: Network, group: Group, batch: int, phases: int) -> float:
    """All FLOPs of the first phases at the peak of all boards.

    A dot product of n terms is 2n - 1 FLOPs, and 2n - d if it is cut in d parts: the bound
    takes the smaller number.
    """
    parts = 0 if group.arithmetic.fused else group.size
    graph = partition_graph(network)
    each, every = sizing(graph).each, whole(graph)
    work = []
    for once, fused in zip(each(batch, every), each(batch, every, fused=True), strict=True):
        for phase in PHASES[:phases]:
            full = flops_of(phase, fused)
            work.append(max(0.0, full - parts * (full - flops_of(phase, once))))
    return math.fsum(work) / group.peak_flops_per_s


def _deployed_s(network: Network, group: Group, batch: int, execution: Execution) -> float:
    cores = [
        (core_of(device, whole=execution.whole_shards), cores_in(device, group.unit) * count)
        for device, count in group.kinds
    ]
    work = list(_work(network, batch, [core for core, _ in cores], inference=execution.inference))
    return max(_weighted_s(work, cores, mix) for mix in MIXES)


def _work(
    network: Network, batch: int, cores: Sequence[Core], *, inference: bool
) -> Iterator[tuple[float, float]]:
    """FLOPs and HBM bytes of every operator, of whole layers and without padding.

    FLOPs that are done faster than most (attention, Winograd) are counted as so many fewer.
    """
    plain = Core(1.0, 1.0, 1.0, 0.0, tile=False, pad_matrix_unit=0, bytes=cores[0].bytes)
    step = operators(network, inference=inference)
    for node, work in zip(step.graph, step.nodes, strict=True):
        outputs = node.out_channels / node.groups
        shard = Shard(batch, node.in_channels / node.groups, outputs, node.groups)
        for phase in PHASES:
            for operator in work.of(phase):
                faster = max(core.rate(operator) / core.flops_per_s for core in cores)
                yield flops(operator, shard) / faster, traffic(operator, shard, plain)


def _weighted_s(
    work: Sequence[tuple[float, float]], cores: Sequence[tuple[Core, int]], mix: float
) -> float:
    """The weighted mean of what cores take, for weights between those of FLOPs and of HBM."""
    peak = sum(core.flops_per_s * many for core, many in cores)
    hbm = sum(core.hbm_bytes_per_s * many for core, many in cores)
    weights = [
        (1 - mix) * core.flops_per_s / peak + mix * core.hbm_bytes_per_s / hbm for core, _ in cores
    ]
    pairs = [(weight, core) for weight, (core, _) in zip(weights, cores, strict=True)]
    flop_s = min(weight / core.flops_per_s for weight, core in pairs)
    byte_s = min(weight / core.hbm_bytes_per_s for weight, core in pairs)
    if any(core.units is not None for core, _ in cores):  # one computes while another moves
        flops, moved = (math.fsum(column) for column in zip(*work, strict=True))
        return max(flops * flop_s, moved * byte_s)
    return math.fsum(max(done * flop_s, moved * byte_s) for done, moved in work)


def least_s(sizes: Iterable[Tables], limit_s: float = math.inf) -> float:
    """What no layout of any of these numbers of cores undercuts, or the limit where that is less.

    Of a number whose products alone take longer nothing is looked at. Of more than FEW_CORES
    none is left without some node.
    """
    for tables in sorted(sizes, key=lambda tables: tables.products_s):
        if tables.products_s < limit_s:
            filled = 1 << tables.cores.levels > FEW_CORES
            best, *_ = Chain(tables, filled=filled, sure=True).best()
            limit_s = min(limit_s, best.bound_s)
    return limit_s


EVERY_PLAN = "any plan: the step's work, spread over all devices without loss"
LAYOUTS = (
    "plans by types I to IV (no cp, no sp) that treat the first 1, 2, 4, ... {} cores{} alike and "
    "leave the others idle"
)
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
    cores = [one for one in _cores(array) if one]
    levels, seconds = max(one.levels for one in cores), first_s
    every = [Tables(network, batch, one, execution, runs=RUNS) for one in cores]
    if levels > MANY_LEVELS:
        seconds = least_s(every, seconds)
    covers = LAYOUTS.format(1 << levels, " of one kind" if len(array.group.kinds) > 1 else "")
    if 1 << levels > FEW_CORES:
        covers += FILLED.format(FEW_CORES)
    if not all(states.complete for one in every for states in _states(one)):
        covers += FEW_RUNS.format(RUNS - 1)
    return StepBound(seconds, covers)


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
    for one in filter(None, cores):
        states = _states(Tables(network, batch, one, execution, runs=RUNS))
        if sum(len(each) ** 2 for each in states) > MOST_WORK:
            return None
    return least_s([Tables(network, batch, one, execution) for one in cores if one])


def _cores(array: Array) -> list[Cores | None]:
    """The first 1, 2, 4, ... cores of each kind; None where they are no such."""
    return [
        first_cores(array, device, 1 << level)
        for device, _ in array.group.kinds
        for level in range(leaves_of(array.group, device).bit_length())
    ]


def _states(tables: Tables) -> list[States]:
    return [tables.states_of_node(v) for v in range(len(tables.graph))]


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
