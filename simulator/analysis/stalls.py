"""What every core does with the step: computing, and what it waits for when it does not."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from planners.order import Kind
from simulator.analysis.intervals import Interval, merged
from simulator.analysis.worker_records import Doings, doings
from simulator.engine.jobs import Ints, ints
from simulator.engine.operations import Operation, Worker
from simulator.engine.records import NO_ROW
from simulator.engine.timeline import Timeline


class Wait(NamedTuple):
    """Time in which a core computes nothing, because of one exchange; picoseconds.

    ``exposed``: an exchange that it takes part in is under way; ``waiting``:
    none is, since others are not ready. ``exchange`` is None behind its last operation.
    """

    exchange: Operation | None
    exposed: int
    waiting: int


class CoreStep(NamedTuple):
    """What each core of one worker computes and waits for; together the whole step.

    An operation is there once, with all of its turns. Picoseconds of each of the
    ``cores`` of the array that do this. While several units of a core are busy, the
    time is put down to the operation that began first.
    """

    worker: Worker
    computed: list[tuple[Operation, int]]
    waits: list[Wait]

    @property
    def cores(self) -> int:
        """How many of the array's cores do this."""
        return self.worker.cores

    @property
    def computing(self) -> int:
        """What each computes, in all."""
        return sum(took for _, took in self.computed)

    @property
    def exposed(self) -> int:
        """When it does not, while an exchange that it waits for, or its own, is under way."""
        return sum(wait.exposed for wait in self.waits)


def core_steps(timeline: Timeline) -> Iterator[CoreStep]:
    """What every worker's cores do, in the program's order."""
    for worker, mine in zip(timeline.program.workers, doings(timeline), strict=True):
        yield _core_step(timeline, worker, mine)


def _core_step(timeline: Timeline, worker: Worker, mine: Doings) -> CoreStep:
    """Follow one core: what it computes, and back from each gap to what it waited for."""
    _, operation, _, starts, ends, causes = timeline.columns
    operations, free = timeline.operations, 0
    joined: list[int] = mine.joined.tolist()
    waited_for = dict(zip(joined, mine.waited_for.tolist(), strict=True))
    waits_for_sends = worker.rank_program is not None and worker.rank_program.sends != "beside"
    under_way = merged(
        [
            (starts[row], ends[row])
            for row in joined
            if operations[operation[row]].kind != Kind.SEND or waits_for_sends
        ]
    )
    step = CoreStep(worker, [], [])

    def wait(row: int) -> None:
        """From ``free`` to the end of a record, by the exchanges that this was waited for.

        Of what others send nobody knows here what they waited for before, unless it was an
        exchange of this worker's.
        """
        while row != NO_ROW and ends[row] > free:
            exchange, cause = operations[operation[row]], causes[row]
            before = waited_for.get(row, cause if cause in waited_for else NO_ROW)
            low = free if before == NO_ROW else max(free, ends[before])
            if row in waited_for:
                exposed = _overlap(under_way, (low, ends[row]))
            else:
                exposed = ends[row] - max(starts[row], low)
            waiting = ends[row] - low - exposed
            step.waits.append(Wait(exchange, exposed, waiting))
            row = before

    begins, stops = ints(timeline.columns.start), ints(timeline.columns.end)
    computed = mine.computed[np.argsort(begins[mine.computed], kind="stable")]
    begins, stops = begins[computed], stops[computed]
    behind, alone = _in_turn(begins, stops)
    for gap in np.flatnonzero(begins > behind).tolist():
        free, row = int(behind[gap]), int(computed[gap])
        wait(causes[row])
    step.computed.extend(_by_operation(timeline, ints(operation)[computed], alone))
    free = int(stops.max()) if len(computed) else 0
    last = max(joined, key=ends.__getitem__, default=NO_ROW)
    wait(last)
    end = max(free, ends[last] if joined else 0)
    idle = timeline.makespan_ps - end
    if idle:
        step.waits.append(Wait(None, 0, idle))
    return step


def _in_turn(begins: Ints, stops: Ints) -> tuple[Ints, Ints]:
    """Until when a core was busy before each of its records, and what each adds to that.

    Records of 0-5, 2-4 and 3-9 on its units add 5, 0 and 4, together the 9 of their union.
    """
    if not len(begins):
        return begins, begins
    behind = np.concatenate([[0], np.maximum.accumulate(stops)[:-1]])
    return behind, np.maximum(stops - np.maximum(begins, behind), 0)


def _by_operation(timeline: Timeline, which: Ints, took: Ints) -> list[tuple[Operation, int]]:
    """How long each operation ``took``, all of its turns together."""
    found, first, number = np.unique(which, return_index=True, return_inverse=True)
    total = np.zeros(len(found), dtype=np.int64)
    np.add.at(total, number, took)
    order = np.argsort(first)
    return [(timeline.operations[found[i]], int(total[i])) for i in order.tolist()]


def _overlap(union: list[Interval], part: Interval) -> int:
    """Picoseconds that disjoint, ordered intervals and one other have in common."""
    low, high = part
    common, place = 0, max(0, bisect_right(union, (low, low)) - 1)
    while place < len(union) and union[place][0] < high:
        common += max(0, min(union[place][1], high) - max(union[place][0], low))
        place += 1
    return common
