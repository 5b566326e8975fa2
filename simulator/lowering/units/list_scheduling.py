"""List scheduling on unlike units: the most urgent task first, where it is over first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from planners.order import Phase

NOWHERE = -1
"""The unit of what keeps none busy."""


@dataclass(frozen=True, slots=True)
class UnitTask:
    """What one unit does of each batch, after the tasks ``needs``, which come before it.

    It takes ``duration_ps``, or longer where others slow its ``hbm_bytes`` down. ``choice``
    has every unit that can do it, with picoseconds, where there are several.
    """

    name: str
    unit: int
    duration_ps: int
    needs: tuple[int, ...] = ()
    hbm_bytes: float = 0.0
    flops: float = 0.0
    phase: Phase = Phase.FORWARD
    choice: tuple[tuple[int, int], ...] = ()


class Placed(NamedTuple):
    """When each task starts, and on which unit."""

    starts: list[int]
    units: list[int]


def urgency(tasks: Sequence[UnitTask]) -> list[int]:
    """Picoseconds from each task's start to the end of a batch, were no unit ever busy."""
    left = [0] * len(tasks)
    for i in reversed(range(len(tasks))):
        left[i] += tasks[i].duration_ps
        for before in tasks[i].needs:
            left[before] = max(left[before], left[i])
    return left


def list_schedule(tasks: Sequence[UnitTask], units: int) -> Placed:
    """When and where each task of one batch starts: the most urgent that is ready comes first.

    It takes the unit on which it is over first, and waits where that is busy still. What is
    NOWHERE starts when it is ready. Of 10 ps on unit 0, or 25 on unit 1, three tasks: the first
    takes unit 0 until 10, the second waits for it until 20, the third is over at 25 on unit 1,
    sooner than at 30.
    """
    return _List(tasks, units).placed()


class _List:
    def __init__(self, tasks: Sequence[UnitTask], units: int) -> None:
        self._tasks = tasks
        self._left = urgency(tasks)
        self._behind: list[list[int]] = [[] for _ in tasks]
        for i, task in enumerate(tasks):
            for before in task.needs:
                self._behind[before].append(i)
        self._missing = [len(task.needs) for task in tasks]
        self._ready: list[list[tuple[int, int]]] = [[] for _ in range(units)]
        """Tasks that one unit alone can do."""
        self._free: list[tuple[int, int]] = []
        """Those that have a choice."""
        self._until = [0] * units
        self._changed = set[int]()
        """Units that are free now, or have more to do."""
        self._running: list[tuple[int, int]] = []
        self._found = Placed([0] * len(tasks), [task.unit for task in tasks])
        self._now = 0

    def placed(self) -> Placed:
        for i, needs in enumerate(self._missing):
            if not needs:
                self._is_ready(i)
        running = self._running
        while True:
            # what takes no time is over before a unit chooses
            while running and running[0][0] == self._now:
                self._is_over(heappop(running)[1])
            if self._free:
                self._choose()
            else:
                for unit in sorted(self._changed):
                    if self._ready[unit] and self._until[unit] <= self._now:
                        _, i = heappop(self._ready[unit])
                        self._start(i, unit, self._tasks[i].duration_ps)
            self._changed.clear()
            if not running:
                return self._found
            self._now = running[0][0]

    def _is_ready(self, i: int) -> None:
        task = self._tasks[i]
        if task.unit == NOWHERE:
            self._found.starts[i] = self._now
            heappush(self._running, (self._now + task.duration_ps, i))
        elif task.choice:
            self._free.append((-self._left[i], i))
        else:
            heappush(self._ready[task.unit], (-self._left[i], i))
            self._changed.add(task.unit)

    def _is_over(self, i: int) -> None:
        if self._found.units[i] != NOWHERE:
            self._changed.add(self._found.units[i])
        for after in self._behind[i]:
            self._missing[after] -= 1
            if not self._missing[after]:
                self._is_ready(after)

    def _start(self, i: int, unit: int, duration_ps: int) -> None:
        self._found.starts[i], self._found.units[i] = self._now, unit
        self._until[unit] = self._now + duration_ps
        heappush(self._running, (self._until[unit], i))

    def _choose(self) -> None:
        """All that is ready, the most urgent first; what waits for a unit keeps it from others."""
        until = [max(self._now, end) for end in self._until]
        waiting = []
        for rank, i in sorted([*self._free, *(one for some in self._ready for one in some)]):
            task = self._tasks[i]
            choice = task.choice or ((task.unit, task.duration_ps),)
            unit, duration = min(choice, key=lambda one: until[one[0]] + one[1])
            if until[unit] == self._now:
                self._start(i, unit, duration)
            elif task.choice:
                waiting.append((rank, i))
            until[unit] += duration
        started = {i for _, i in self._running}
        self._free = waiting
        for some in self._ready:
            some[:] = [one for one in some if one[1] not in started]
            heapify(some)
