"""What no schedule of a pipeline's stages undercuts: the work of one accelerator, and its start.

Every accelerator computes all that its stage has for a batch, one thing after the other,
whatever the order; without overlap its exchanges are work, too. It cannot begin before
the first micro-batch has come to it, through the layers that lead there and over links
that nobody else uses. Of three stages that take 2 s forward and 4 s backward, eight
micro-batches take the last one 8 * 6 s, and it begins at 4 s: no less than 52 s.
(1F1B takes 60: the way back of the last micro-batch is not in the bound.)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from planners.order import Kind
from simulator.analysis.exposed_communication import core_times
from simulator.analysis.worker_records import doings
from simulator.engine.jobs import Links, ints
from simulator.engine.operations import Itinerary, Operation, Part, Worker
from simulator.engine.picoseconds import PICOSECONDS
from simulator.engine.timeline import Timeline
from simulator.planning.bounds import StepBound

THESE_STAGES = "any schedule of these stages: an accelerator's work, and what comes before it"


def stages_bound(timeline: Timeline) -> StepBound | None:
    """The bound of a step in stages, from a run of it; None where nothing is computed.

    Of a run without a flush it is a batch's part of the work: what comes first is long ago.
    Where no rhythm was seen the step is a mean of what was run, and nothing is known.
    """
    if timeline.batch_ps is not None and timeline.period is None:
        return None
    exchanged = _exchanges(timeline)
    worked = [time.computing + ps for time, ps in zip(core_times(timeline), exchanged, strict=True)]
    if timeline.batch_ps is None:
        begins = _begins(timeline)
        worked = [work + begin for work, begin in zip(worked, begins, strict=True)]
    most_ps = max(worked, default=0) // timeline.batches
    return StepBound(most_ps / PICOSECONDS, THESE_STAGES) if most_ps else None


def _exchanges(timeline: Timeline) -> list[int]:
    """Of workers without overlap: how long their exchanges take at least, sends left out (ps)."""
    least = np.array(
        [
            0
            if operation.kind in (Kind.SEND, Kind.MEMORY)
            else _least_ps(operation, timeline.links)
            for operation in timeline.operations
        ]
    )
    found = []
    for worker, mine in zip(timeline.program.workers, doings(timeline), strict=True):
        waits = worker.itinerary is not None and not worker.itinerary.overlap
        joined = mine.joined if waits else mine.joined[:0]
        spent = least[ints(timeline.columns.operation)[joined]]
        found.append(int(spent.sum()))
    return found


def _begins(timeline: Timeline) -> list[int]:
    """When each worker computes at the earliest (ps); 0 for those that never do."""
    workers, links = timeline.program.workers, timeline.links
    found = [-1] * len(workers)
    ends: dict[tuple[int, int], int] = {}
    sent: dict[Operation, list[int]] = defaultdict(list)
    for number, lines, itinerary in _forward(workers):
        template = workers[number].template
        for line in lines:
            operation, needs, parties, *_ = template[line]
            # what a worker needs of others at a meeting of its stage is left out: it is later
            begin = max((ends[number, need] for need in needs if (number, need) in ends), default=0)
            if template[line].receives:
                begin = max(begin, min(sent[_way(itinerary, operation)], default=0))
                ends[number, line] = begin
                continue
            ends[number, line] = begin + _least_ps(operation, links)
            if parties:
                sent[_way(itinerary, operation)].append(ends[number, line])
            elif found[number] < 0 or begin < found[number]:
                found[number] = begin
    return [max(begin, 0) for begin in found]


def _forward(workers: tuple[Worker, ...]) -> Iterator[tuple[int, tuple[int, ...], Itinerary]]:
    """Each worker's forward lines of each stage, stage by stage."""
    stages = sorted(
        (stage, number)
        for number, worker in enumerate(workers)
        if worker.itinerary
        for stage, part in worker.itinerary.lines
        if part is Part.FORWARD
    )
    for stage, number in stages:
        itinerary = workers[number].itinerary
        if itinerary:
            yield number, itinerary.lines[stage, Part.FORWARD], itinerary


def _way(itinerary: Itinerary, operation: Operation) -> Operation:
    """One of the sends of a tensor between replicas, by which all of them go here."""
    ways = itinerary.routes.get(operation)
    return ways[0].operation if ways else operation


def _least_ps(operation: Operation, links: Links) -> int:
    """How long it takes with everything for itself."""
    if operation.jobs:
        return sum(links.carry(job).alone_ps(links.bandwidth) for job in operation.jobs)
    return operation.duration_ps
