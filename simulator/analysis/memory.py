"""How full a worker's HBM was over a run: from what it did, in the order in which it did it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from simulator.analysis.doings import RowsByOperation, doings
from simulator.analysis.held import held
from simulator.engine.occupancy import MOVING, all_classes
from simulator.engine.operations import Worker
from simulator.engine.timeline import Timeline


class Filled(NamedTuple):
    """The most that is held during one computation (bytes), from its start to its end (ps)."""

    start_ps: int
    end_ps: int
    most: float
    versions: int
    moving: tuple[float, ...]
    """Of it, by class, what comes and goes (MOVING)."""


def memory_over_time(timeline: Timeline, worker: int) -> Iterator[tuple[int, int, float]]:
    """Start, end (picoseconds) and the most that was held (bytes) of each computation.

    What a worker holds grows and shrinks with what it computes: activations
    that wait for backward, gradients that wait for the update. Its template
    says by how much each line does; how often, and in which order, is read
    from the records, so that several micro-batches in flight add up. With an
    itinerary the order is known, and each record is one of it; what several units of a
    core do at once is held as if they did it in that order.
    """
    for one in _filled(timeline, worker):
        yield one.start_ps, one.end_ps, one.most


def classes_over_time(
    timeline: Timeline, worker: int
) -> Iterator[tuple[int, int, tuple[float, ...]]]:
    """The same, with the bytes of each of CLASSES at the most; nothing where there is no memory.

    Every version of the weights that is held counts to them.
    """
    if not timeline.memory:
        return
    mine = timeline.program.workers[worker]
    for one in _filled(timeline, worker):
        yield one.start_ps, one.end_ps, _by_class(mine, one)


def peak_bytes(timeline: Timeline, worker: int) -> float:
    """The most that one of a worker's cores held at any time, in bytes."""
    held_bytes = timeline.program.workers[worker].held_bytes
    return max((most for _, _, most in memory_over_time(timeline, worker)), default=held_bytes)


def _by_class(worker: Worker, one: Filled) -> tuple[float, ...]:
    more = (one.versions - 1) * worker.weight_bytes
    always = worker.held_bytes + more, worker.weight_bytes + more, worker.gradient_bytes
    return all_classes(*always, one.moving)


def _filled(timeline: Timeline, worker: int) -> Iterator[Filled]:
    mine = timeline.program.workers[worker]
    columns = timeline.columns
    if mine.itinerary is not None:
        found = RowsByOperation(timeline, worker)
        for one in held(mine, mine.itinerary):
            row = found.next(one.operation, one.turn)
            when = columns.start[row], columns.end[row]
            yield Filled(*when, one.most, one.versions, one.by_class)
        return
    rows = doings(timeline)[worker].computed.tolist()
    rows.sort(key=columns.start.__getitem__)
    changes = {task.operation: task.held for task in mine.template}
    nothing = (0.0,) * len(MOVING)
    level, moving = mine.held_bytes, nothing
    for row in rows:
        most, more, most_by, more_by = changes[timeline.operations[columns.operation[row]]]
        # sums of what comes and goes may end a little below nothing, by rounding
        at_most = tuple(max(a + b, 0.0) for a, b in zip(moving, most_by or nothing, strict=True))
        yield Filled(columns.start[row], columns.end[row], max(level + most, 0.0), 1, at_most)
        level += more
        moving = tuple(a + b for a, b in zip(moving, more_by or nothing, strict=True))
