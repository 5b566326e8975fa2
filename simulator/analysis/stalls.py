"""What every core does with the step: computing, and what it waits for when it does not."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from simulator.analysis.exposure import Interval, merged
from simulator.analysis.schedule import Placed, Schedule, schedule
from simulator.engine.operations import COMPUTE_LEVEL, Operation
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
    """What each core of one accelerator computes and waits for; together the whole step.

    Picoseconds of each of the ``cores`` of the array that do this.
    """

    placed: Placed
    computed: list[tuple[Operation, int]]
    waits: list[Wait]

    @property
    def cores(self) -> int:
        """How many of the array's cores do this."""
        return self.placed.cores


def core_steps(timeline: Timeline, done: Schedule | None = None) -> Iterator[CoreStep]:
    """What every accelerator's cores do, in the order in which the machine built them."""
    done = done or schedule(timeline)
    for number in range(len(done.accelerators)):
        yield _core_step(done, number, timeline.iteration_ps)


def _core_step(done: Schedule, number: int, end_ps: int) -> CoreStep:
    accelerator, first = done.accelerators[number], done.first[number]
    operations = accelerator.leaf.operations
    starts = done.starts[first : first + len(operations)]
    ends = done.ends[first : first + len(operations)]
    exchanges = [i for i, op in enumerate(operations) if op.level != COMPUTE_LEVEL]
    under_way = merged([(starts[i], ends[i]) for i in exchanges])
    step = CoreStep(accelerator, [], [])

    def wait(until: int | None) -> None:
        """From ``free`` to the end of an operation, by the exchanges that this was waited for."""
        while until is not None and ends[until] > free:
            before = max(done.needs(number, until), key=ends.__getitem__, default=None)
            low = free if before is None else max(free, ends[before])
            exposed = _overlap(under_way, (low, ends[until]))
            waiting = ends[until] - low - exposed
            step.waits.append(Wait(operations[until], exposed, waiting))
            until = before

    free = 0
    for position, operation in enumerate(operations):
        if operation.level == COMPUTE_LEVEL:
            if starts[position] > free:
                wait(max(done.needs(number, position), key=ends.__getitem__))
            step.computed.append((operation, ends[position] - starts[position]))
            free = ends[position]
    last = max(exchanges, key=ends.__getitem__, default=None)
    wait(last)
    idle = end_ps - max(free, ends[last] if last is not None else 0)
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
