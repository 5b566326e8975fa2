"""Computations that follow each other while nobody watches: one event, and a record for each.

What a worker's cores compute one after the other, on an HBM of its own, ends when it
ends: only the end of the last one can matter to anybody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from simulator.engine.operations import Operation, Task
from simulator.engine.picoseconds import whole_ps
from simulator.engine.records import Log


def runs_of(template: Sequence[Task], lines: Iterable[int]) -> list[tuple[int, ...]]:
    """Lines in their order, those that compute in one go together.

    None but the first of these needs anything that does not compute on the same cores.
    """
    computes = [not task.parties and not task.receives for task in template]
    found: list[tuple[int, ...]] = []
    run: tuple[int, ...] = ()
    for line in lines:
        goes_on = computes[line] and all(computes[i] for i in template[line].needs)
        if run and not goes_on:
            found.append(run)
            run = ()
        if computes[line]:
            run = (*run, line)
        else:
            found.append((line,))
    return [*found, run] if run else found


class Traffic(NamedTuple):
    """What an operation of a chain moves in HBM: its place, its number, and how long it takes."""

    place: int
    number: int
    through_ps: int


class Chain:
    """Some operations on cores with HBM of a ``bandwidth``, by their ``numbers`` in the log.

    ``offsets`` are picoseconds from the chain's begin: where each operation begins, and
    where the last one ends.
    """

    __slots__ = ("duration_ps", "hbm_bytes", "numbers", "offsets", "traffic")

    def __init__(
        self,
        operations: Sequence[Operation],
        numbers: Sequence[int],
        bandwidth: float | None = None,
        traffic: Sequence[int] = (),
    ) -> None:
        self.numbers = tuple(numbers)
        self.hbm_bytes = 0.0
        offsets, crossing = [0], list[Traffic]()
        for place, operation in enumerate(operations):
            duration = operation.duration_ps
            if bandwidth is not None and operation.hbm_bytes:
                through = whole_ps(operation.hbm_bytes / bandwidth)
                crossing.append(Traffic(place, traffic[place], through))
                duration = max(duration, through)
                self.hbm_bytes += operation.hbm_bytes
            offsets.append(offsets[-1] + duration)
        self.offsets = tuple(offsets)
        self.traffic = tuple(crossing)
        self.duration_ps = offsets[-1]

    def write(self, log: Log, memory: int, turn: int, start_ps: int, cause: int) -> range:
        """Its records, each waiting for the one before; returns their numbers.

        What crosses the HBM is written for the resource ``memory``.
        """
        first = log.chained(self.numbers, turn, start_ps, self.offsets, cause)
        for place, number, through_ps in self.traffic:
            begin = start_ps + self.offsets[place]
            waited = first + place - 1 if place else cause
            row = log.over(number, turn, begin, begin + through_ps, waited)
            log.resource.append(memory)
            log.done.append(row)
        return range(first, first + len(self.numbers))
