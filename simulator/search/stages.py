"""Stages of a pipeline, on our own costs: balanced, PipeDream's, and what no schedule undercuts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate, repeat

import numpy as np

from hardware import Array, Device, wires_of
from planners import Place, Plan, PlanError, Staging
from planners.cost.objective import TIME, Objective
from planners.order import Kind, Phase
from planners.pipeline.balance import balanced
from planners.pipeline.cost_models import Level, Paper
from planners.pipeline.pipedream import plan_stages
from planners.pipeline.profile import Profile, ProfileNode
from planners.pipeline.staging import cut_into, micro_batch, plan_of_stages
from planners.pipeline.states import states_of
from planners.sizing import Ints
from simulator.analysis.stalls import core_steps
from simulator.analysis.worker_records import worker_rows
from simulator.engine.jobs import Links, ints
from simulator.engine.operations import Operation, Part, RankProgram
from simulator.engine.picoseconds import PICOSECONDS
from simulator.engine.timeline import Timeline
from simulator.lowering.execution import Execution, usual
from simulator.lowering.layer_times import LayerTime, layer_times, nodes_of
from simulator.search.bounds import StepBound
from workloads import Graph, Network, partition_graph

PIPEDREAM = "pipedream"
"""The planner, and the schedule that its stages run."""


def pipedream(
    network: Network,
    array: Array,
    batch: int,
    objective: Objective = TIME,
    /,
    *,
    execution: Execution | None = None,
) -> Plan:
    """The pipeline with the least time of a minibatch by the paper's formula; exact.

    A batch has as many minibatches as the execution's staging says, or else as
    there are accelerators. Cuts are between consecutive layers of the
    partition graph; what crosses one are all tensors that a later layer reads. Layers
    that share weights are in one stage, unless the staging says who sums their gradients.
    Raises PlanError for an array of several kinds of devices.
    """
    execution = execution or usual(array)
    if len(array.group.kinds) > 1:
        names = ", ".join(device.name for device, _ in array.group.kinds)
        raise PlanError(
            f"pipedream plans for devices of one kind; {array.name!r} has {names}. Use --stages "
            "with another planner"
        )
    staging = execution.staging or Staging(micro_batches=array.group.size)
    if staging.stages > 1 or staging.virtual > 1 or staging.cuts:
        raise PlanError("pipedream chooses stages, cuts and replicas itself: name none of them")
    size = micro_batch(batch, staging.micro_batches)
    plain = replace(execution, staging=None, strict_memory=False)
    times = layer_times(network, array, size, plain)
    units = tuple(_units(network, times, ties=not staging.tied))
    chain = tuple((i, i + 1) for i in range(len(units) - 1))
    profile = Profile(network.name, units, chain)
    found = plan_stages(states_of(profile), levels_of(array), Paper()).stages
    firsts = [min(map(int, stage.nodes)) for stage in found]
    behind = accumulate((stage.replicas for stage in found), initial=0)
    places = [Place(at, one.replicas, one.replicas) for at, one in zip(behind, found, strict=False)]
    whole = Plan.blank(PIPEDREAM, network, batch, objective)
    return replicated_stages(whole, network, array, staging, firsts, places)


pipedream.plans_stages = True  # type: ignore[attr-defined]


def replicated_stages(
    whole: Plan,
    network: Network,
    array: Array,
    staging: Staging,
    firsts: Sequence[int],
    places: Sequence[Place],
) -> Plan:
    """The ``whole`` with stages that begin at layers ``firsts``, each device of a place a replica.

    Raises PlanError where the network cannot be cut so.
    """
    size = micro_batch(whole.batch, staging.micro_batches)

    def planned(_: int, part: Network, __: Array) -> Plan:
        return Plan("single", part.name, size, whole.objective, nodes_of(part), None)

    cut, staging = (
        cut_into(network, firsts),
        replace(staging, schedule=staging.schedule or PIPEDREAM),
    )
    return plan_of_stages(whole, cut, array, places, staging, staging.micro_batches, planned)


def balanced_stages(
    network: Network,
    array: Array,
    batch: int,
    execution: Execution,
    places: Sequence[Place],
    staging: Staging,
) -> list[tuple[int, ...]]:
    """Where stages begin, so that the longest takes a micro-batch as short as may be.

    Three ways, or fewer where they are the same: by work alone; by work or sends, whichever is
    longer (what crosses the two ends, over all links of a place); and with the gradients' sums
    of data parallelism on top, shared out to micro-batches. ``array`` is as it is planned.
    Raises PlanError where there are more stages than layers with weights.
    """
    graph, micro_batches = partition_graph(network), staging.micro_batches
    plain = replace(execution, staging=None, strict_memory=False)
    size = micro_batch(batch, micro_batches)
    kinds: dict[Device, list[LayerTime]] = {}
    rows, sends, sums = [], [], []
    for k in range(staging.stages * staging.virtual):
        place = places[k % len(places)]
        group, number = array.part(place.first, place.count).group, place.first
        rate = [0.0] * len(graph)
        for device, count in group.kinds:
            if device not in kinds:
                kinds[device] = layer_times(network, array, size, plain, number)
            many = replace(group, kinds=((device, count),)).size
            times = [each.seconds for each in kinds[device]]
            rate = [r + many / s if s else r for r, s in zip(rate, times, strict=True)]
            number += many
        rows.append([1 / r if r else 0.0 for r in rate])
        of = kinds[group.kinds[0][0]]
        back, on = (places[(k + way) % len(places)] for way in (-1, 1))
        back_s = 0.0 if execution.inference else _sends_s(array, place, back)
        sends.append(np.outer([back_s, _sends_s(array, place, on)], _crossing_bytes(graph, of)))
        each_s = _sums_s(array, place) / micro_batches
        sums.append([0.0 if execution.inference else each_s * one.gradient_bytes for one in of])
    named = {layer.name for layer in network.layers if layer.weighted}
    weighted = [node.name in named for node in graph]
    apart = np.zeros(len(graph) + 1)
    for v, node in enumerate(graph):
        if node.tied is not None and not staging.tied:  # who sums its gradients is not said
            apart[node.tied + 1 : v + 1] = np.inf
    alone, sends = ([each * size + apart for each in sends] for size in (0, 1))
    found = list[tuple[int, ...]]()
    for way in ((alone,), (sends,), (sends, sums)):
        with suppress(PlanError):  # every cut parts users of a weight
            found.append(balanced(rows, weighted, *way))
    return list(dict.fromkeys(found)) or [balanced(rows, weighted)]


def _sends_s(array: Array, place: Place, other: Place) -> float:
    """What a byte takes from a place to another, an equal part from each of its devices to one."""
    if place == other:
        return 0.0
    if array.group.leaf == "board":
        sides = (array.part(side.first, side.count).group.kinds for side in (place, other))
        return 1 / min(sum(d.network_bytes_per_s * n for d, n in kinds) for kinds in sides)
    many = max(place.count, other.count)
    one, two = (side.first + np.arange(many) * side.count // many for side in (place, other))
    return _byte_s(array, one, two, 1 / many)


def _sums_s(array: Array, place: Place) -> float:
    """What a byte of gradients of each device takes to be summed by all of a place, as a ring."""
    many = place.count
    if many == 1:
        return 0.0
    each = 2 * (many - 1) / many
    if array.group.leaf == "board":
        kinds = array.part(place.first, many).group.kinds
        return each / min(device.network_bytes_per_s for device, _ in kinds)
    cores = place.first + np.arange(many)
    return _byte_s(array, cores, np.roll(cores, -1), each)


def _byte_s(array: Array, sources: Ints, targets: Ints, flows: float) -> float:
    """Of the link that most goes over, where so many bytes go from each source to its target."""
    wires = wires_of(array)
    return float((wires.loads(sources, targets, flows) / wires.bandwidth).max(initial=0.0))


def _crossing_bytes(graph: Graph, times: Sequence[LayerTime]) -> list[float]:
    """Of all tensors that cross a cut before each node, and at the end: nothing."""
    last_read = list(range(len(graph)))
    for w, node in enumerate(graph):
        for v in node.producers:
            last_read[v] = w
    change = [0.0] * (len(graph) + 2)
    for v, last in enumerate(last_read):
        change[v + 1] += times[v].output_bytes
        change[last + 1] -= times[v].output_bytes
    return [0.0, *accumulate(change[1 : len(graph)]), 0.0]


def levels_of(array: Array) -> list[Level]:
    """The array as PipeDream sees it: so many of what is below, and the links between them."""
    ((device, _),) = array.group.kinds
    if array.group.leaf == "board":
        return [Level(array.group.size, device.network_bytes_per_s)]
    wires, first, cores = wires_of(array), array.first, array.group.size
    found = []
    inside = min(device.cores, cores)
    if inside > 1:
        one, other = range(first, first + 1), range(first + inside - 1, first + inside)
        found.append(Level(inside, wires.injection_bytes_per_s(one, other)))
    if cores > inside:
        found.append(Level(cores // inside, device.network_bytes_per_s))
    return found or [Level(1, device.network_bytes_per_s)]


def _units(network: Network, times: Sequence[LayerTime], *, ties: bool) -> Iterator[ProfileNode]:
    """Layers that are never cut apart: one with weights, and those behind it that have none.

    In order, named by the number of the first. ``ties`` hold together a layer, all that use its
    weights, and what is between.
    """
    graph = partition_graph(network)
    weighted = {layer.name for layer in network.layers if layer.weighted}
    begins = [v for v, node in enumerate(graph) if node.name in weighted]
    begins[0] = 0
    tied = [(node.tied, v) for v, node in enumerate(graph) if ties and node.tied is not None]
    begins = [first for first in begins if not any(u < first <= v for u, v in tied)]
    crosses = _crossing_bytes(graph, times)
    for first, end in zip(begins, [*begins[1:], len(graph)], strict=True):
        mine = times[first:end]
        yield ProfileNode(
            str(first),
            "",
            sum(t.forward_s for t in mine),
            sum(t.backward_s for t in mine),
            crosses[end],
            sum(t.gradient_bytes for t in mine),
        )


THESE_STAGES = "any schedule of these stages: an accelerator's work, and what comes before it"


def stages_bound(timeline: Timeline) -> StepBound | None:
    """The bound of a step in stages, from a run of it; None where nothing is computed.

    Of a run without a flush it is a batch's part of the work: what comes first is long ago.
    Where no rhythm was seen the step is a mean of what was run, and nothing is known.
    """
    if timeline.batch_ps is not None and timeline.period is None:
        return None
    begins = _begins(timeline) if timeline.batch_ps is None else repeat(0)
    each = zip(_work(timeline), *_exchanges(timeline), begins, strict=False)
    # new weights may come while the stages before compute
    worked = (work + others + max(weights, begin) for work, weights, others, begin in each)
    most_ps = max(worked, default=0) // timeline.batches
    return StepBound(most_ps / PICOSECONDS, THESE_STAGES) if most_ps else None


def _work(timeline: Timeline) -> Iterator[int]:
    """How long each worker computes at least (ps); of cores of several units the busiest unit."""
    alone_ps = ints([operation.duration_ps for operation in timeline.operations])
    unit = ints([operation.unit for operation in timeline.operations])
    done = ints(timeline.columns.operation)
    for step, mine in zip(core_steps(timeline), worker_rows(timeline), strict=True):
        if len(step.worker.units) > 1:
            computed = done[mine.computed]
            yield int(np.bincount(unit[computed], alone_ps[computed], 1).max())
        else:
            yield step.computing


def _exchanges(timeline: Timeline) -> tuple[list[int], list[int]]:
    """Of workers without overlap: how long their exchanges take at least, sends left out (ps).

    Of new weights, in front of the first pass, and of all else.
    """
    least = np.array(
        [
            _least_ps(operation, timeline.links) if _is_exchange(operation) else 0
            for operation in timeline.operations
        ]
    )
    new = np.array([one.phase is Phase.UPDATE for one in timeline.operations], dtype=bool)
    weights, others = list[int](), list[int]()
    for worker, mine in zip(timeline.program.workers, worker_rows(timeline), strict=True):
        waits = worker.rank_program is not None and not worker.rank_program.overlap
        joined = ints(timeline.columns.operation)[mine.joined if waits else mine.joined[:0]]
        weights.append(int(least[joined[new[joined]]].sum()))
        others.append(int(least[joined[~new[joined]]].sum()))
    return weights, others


def _is_exchange(operation: Operation) -> bool:
    return operation.kind not in (Kind.SEND, Kind.MEMORY)


def _begins(timeline: Timeline) -> list[int]:
    """When each worker computes at the earliest (ps); 0 for those that never do.

    Without overlap exchanges take no time here: ``_exchanges`` has them.
    """
    workers, links = timeline.program.workers, timeline.links
    found = [-1] * len(workers)
    ends: dict[tuple[int, int], int] = {}
    sent: dict[Operation, list[int]] = defaultdict(list)
    programs = {n: mine for n, worker in enumerate(workers) if (mine := worker.rank_program)}
    parts = [(key, number) for number, mine in programs.items() for key in mine.lines]
    for key, number in sorted(one for one in parts if one[0][1] is Part.FORWARD):
        template, rank_program = workers[number].template, programs[number]
        for line in rank_program.lines[key]:
            operation, needs, parties, *_ = template[line]
            # what a worker needs of others at a meeting of its stage is left out: it is later
            begin = max((ends[number, need] for need in needs if (number, need) in ends), default=0)
            if template[line].receives:
                begin = max(begin, min(sent[_way(rank_program, operation)], default=0))
                ends[number, line] = begin
                continue
            counted = not rank_program.overlap and operation.jobs and _is_exchange(operation)
            ends[number, line] = begin + (0 if counted else _least_ps(operation, links))
            if parties:
                sent[_way(rank_program, operation)].append(ends[number, line])
            elif found[number] < 0 or begin < found[number]:
                found[number] = begin
    return [max(begin, 0) for begin in found]


def _way(rank_program: RankProgram, operation: Operation) -> Operation:
    """One of the sends of a tensor between replicas, by which all of them go here."""
    ways = rank_program.routes.get(operation)
    return ways[0].operation if ways else operation


def _least_ps(operation: Operation, links: Links) -> int:
    """How long it takes with everything for itself."""
    if operation.jobs:
        return sum(links.carry(job).alone_ps(links.bandwidth) for job in operation.jobs)
    return operation.duration_ps
