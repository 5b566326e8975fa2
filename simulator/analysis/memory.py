"""How full a worker's HBM was over a run: from what it did, in the order in which it did it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from simulator.analysis.doings import RowsByOperation, doings
from simulator.analysis.held import held, peak
from simulator.engine.occupancy import MOVING, all_classes
from simulator.engine.operations import Worker
from simulator.engine.timeline import Timeline


class Filled(NamedTuple):
    """The most that is held during one computation (bytes), from its start to its end (ps).

    ``by_class`` has it by CLASSES, of the weights every version that is held; () of a program
    that says nothing of its memory.
    """

    start_ps: int
    end_ps: int
    most: float
    by_class: tuple[float, ...] = ()


def filled(timeline: Timeline, worker: int) -> Iterator[Filled]:
    """Every computation of a worker.

    What a worker holds grows and shrinks with what it computes: activations
    that wait for backward, gradients that wait for the update. Its template
    says by how much each line does; how often, and in which order, is read
    from the records, so that several micro-batches in flight add up. With an
    itinerary the order is known, and each record is one of it; what several units of a
    core do at once is held as if they did it in that order.
    """
    mine, known = timeline.program.workers[worker], bool(timeline.memory)
    walk = _in_stages if mine.itinerary is not None else _in_one
    for start_ps, end_ps, most, versions, moving in walk(timeline, worker):
        by_class = _all_classes(mine, versions, moving) if known else ()
        yield Filled(start_ps, end_ps, most, by_class)


def at_rest(timeline: Timeline, worker: int) -> tuple[float, ...]:
    """Bytes of each of CLASSES that a worker holds before the step, and after it."""
    return _all_classes(timeline.program.workers[worker], 1, (0.0,) * len(MOVING))


def memory_over_time(timeline: Timeline, worker: int) -> Iterator[tuple[int, int, float]]:
    """Start, end (picoseconds) and the most that was held (bytes) of each computation."""
    for one in filled(timeline, worker):
        yield one[:3]


def peak_bytes(timeline: Timeline, worker: int) -> float:
    """The most that one of a worker's cores held at any time, in bytes."""
    held_bytes = timeline.program.workers[worker].held_bytes
    return max((most for _, _, most in memory_over_time(timeline, worker)), default=held_bytes)


def fullest(timeline: Timeline) -> int:
    """The worker whose cores hold the largest share of their capacity, the first of such."""
    workers = timeline.program.workers
    shares = [
        _most(one) / (one.device.hbm_capacity_bytes / one.device.cores_per_chip) for one in workers
    ]
    return shares.index(max(shares))


def _most(worker: Worker) -> float:
    """The most that a worker holds, by its script."""
    if worker.itinerary is not None:
        top = peak(worker, worker.itinerary)
        return worker.held_bytes if top is None else top.most
    most = level = worker.held_bytes
    for task in worker.template:
        most, level = max(most, level + task.held.most), level + task.held.more
    return most


Step = tuple[int, int, float, int, tuple[float, ...]]
"""Start, end, the most, versions of the weights, and of the most what comes and goes (MOVING)."""


def _in_stages(timeline: Timeline, worker: int) -> Iterator[Step]:
    mine, columns = timeline.program.workers[worker], timeline.columns
    if mine.itinerary is None:
        return
    found = RowsByOperation(timeline, worker)
    for one in held(mine, mine.itinerary):
        row = found.next(one.operation, one.turn)
        yield columns.start[row], columns.end[row], one.most, one.versions, one.by_class


def _in_one(timeline: Timeline, worker: int) -> Iterator[Step]:
    mine, columns = timeline.program.workers[worker], timeline.columns
    rows = doings(timeline)[worker].computed.tolist()
    rows.sort(key=columns.start.__getitem__)
    changes = {task.operation: task.held for task in mine.template}
    nothing = (0.0,) * len(MOVING)
    level, moving = mine.held_bytes, nothing
    for row in rows:
        most, more, most_by, more_by = changes[timeline.operations[columns.operation[row]]]
        # sums of what comes and goes may end a little below nothing, by rounding
        at_most = tuple(max(a + b, 0.0) for a, b in zip(moving, most_by or nothing, strict=True))
        yield columns.start[row], columns.end[row], max(level + most, 0.0), 1, at_most
        level += more
        moving = tuple(a + b for a, b in zip(moving, more_by or nothing, strict=True))


def _all_classes(worker: Worker, versions: int, moving: tuple[float, ...]) -> tuple[float, ...]:
    more = (versions - 1) * worker.weight_bytes
    always = worker.held_bytes + more, worker.weight_bytes + more, worker.gradient_bytes
    return all_classes(*always, moving)
