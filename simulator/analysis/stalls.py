"""What every core does with the step: computing, and what it waits for when it does not."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from planners.order import Kind
from simulator.analysis.doings import Doings, doings
from simulator.analysis.exposure import Interval, merged
from simulator.engine.operations import Operation, Worker
from simulator.engine.timeline import NO_ROW, Timeline


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

    Picoseconds of each of the ``cores`` of the array that do this.
    """

    worker: Worker
    computed: list[tuple[Operation, int]]
    waits: list[Wait]

    @property
    def cores(self) -> int:
        """How many of the array's cores do this."""
        return self.worker.cores


def core_steps(timeline: Timeline) -> Iterator[CoreStep]:
    """What every worker's cores do, in the program's order."""
    for worker, mine in zip(timeline.program.workers, doings(timeline), strict=True):
        yield _core_step(timeline, worker, mine)


def _core_step(timeline: Timeline, worker: Worker, mine: Doings) -> CoreStep:
    """Follow one core: what it computes, and back from each gap to what it waited for."""
    _, operation, _, starts, ends, causes = timeline.columns
    operations = timeline.operations
    joined: list[int] = mine.joined.tolist()
    waited_for = dict(zip(joined, mine.waited_for.tolist(), strict=True))
    under_way = merged(
        [
            (starts[row], ends[row])
            for row in joined
            if operations[operation[row]].kind is not Kind.SEND  # nobody waits for his own
        ]
    )
    step = CoreStep(worker, [], [])

    def wait(row: int) -> None:
        """From ``free`` to the end of a record, by the exchanges that this was waited for.

        Of what others send nobody knows here what they waited for before.
        """
        while row != NO_ROW and ends[row] > free:
            if row not in waited_for:
                sent = max(starts[row], free)
                found = Wait(operations[operation[row]], ends[row] - sent, sent - free)
                step.waits.append(found)
                return
            before = waited_for.get(row, causes[row])
            low = free if before == NO_ROW else max(free, ends[before])
            exposed = _overlap(under_way, (low, ends[row]))
            waiting = ends[row] - low - exposed
            step.waits.append(Wait(operations[operation[row]], exposed, waiting))
            row = before

    free = 0
    for row in mine.computed.tolist():
        if starts[row] > free:
            wait(causes[row])
        step.computed.append((operations[operation[row]], ends[row] - starts[row]))
        free = ends[row]
    last = max(joined, key=ends.__getitem__, default=NO_ROW)
    wait(last)
    idle = timeline.makespan_ps - max(free, ends[last] if joined else 0)
    if idle:
        step.waits.append(Wait(None, 0, idle))
    return step


def _overlap(union: list[Interval], part: Interval) -> int:
    """Picoseconds that disjoint, ordered intervals and one other have in common."""
    low, high = part
    common, place = 0, max(0, bisect_right(union, (low, low)) - 1)
    while place < len(union) and union[place][0] < high:
        common += max(0, min(union[place][1], high) - max(union[place][0], low))
        place += 1
    return common
