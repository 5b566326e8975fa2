"""How full a worker's HBM was over a run: from what it did, in the order in which it did it."""

from __future__ import annotations

from collections.abc import Iterator

from simulator.analysis.doings import RowsByOperation, doings
from simulator.analysis.held import held
from simulator.engine.timeline import Timeline


def memory_over_time(timeline: Timeline, worker: int) -> Iterator[tuple[int, int, float]]:
    """Start, end (picoseconds) and the most that was held (bytes) of each computation.

    What a worker holds grows and shrinks with what it computes: activations
    that wait for backward, gradients that wait for the update. Its template
    says by how much each line does; how often, and in which order, is read
    from the records, so that several micro-batches in flight add up. With an
    itinerary the order is known, and each record is one of it; what several units of a
    core do at once is held as if they did it in that order.
    """
    mine = timeline.program.workers[worker]
    columns, level = timeline.columns, mine.held_bytes
    if mine.itinerary is not None:
        found = RowsByOperation(timeline, worker)
        for one in held(mine, mine.itinerary):
            row = found.next(one.operation, one.turn)
            yield columns.start[row], columns.end[row], one.most
        return
    rows = doings(timeline)[worker].computed.tolist()
    rows.sort(key=columns.start.__getitem__)
    changes = {task.operation: task.held for task in mine.template}
    for row in rows:
        most, more, *_ = changes[timeline.operations[columns.operation[row]]]
        # sums of what comes and goes may end a little below nothing, by rounding
        yield columns.start[row], columns.end[row], max(level + most, 0.0)
        level += more


def peak_bytes(timeline: Timeline, worker: int) -> float:
    """The most that one of a worker's cores held at any time, in bytes."""
    held_bytes = timeline.program.workers[worker].held_bytes
    return max((most for _, _, most in memory_over_time(timeline, worker)), default=held_bytes)
