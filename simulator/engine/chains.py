"""Computations that follow each other while nobody watches: one event, and a record for each.

What a worker's cores compute one after the other, on an HBM of its own, ends when it
ends: only the end of the last one can matter to anybody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from simulator.engine.operations import Operation
from simulator.engine.picoseconds import whole_ps
from simulator.engine.records import Log


class Traffic(NamedTuple):
    """What an operation of a chain moves in HBM: its place, its number, and how long it takes."""

    place: int
    number: int
    through_ps: int


class Chain:
    """Some operations on one worker; ``numbers`` are those by which the log knows them.

    ``offsets`` are picoseconds from the chain's begin: where each operation begins, and
    where the last one ends.
    """

    __slots__ = ("duration_ps", "hbm_bytes", "memory", "numbers", "offsets", "traffic")

    def __init__(
        self,
        operations: Sequence[Operation],
        numbers: Sequence[int],
        bandwidth: float | None = None,
        memory: int = -1,
        traffic: Sequence[int] = (),
    ) -> None:
        self.numbers = tuple(numbers)
        self.memory = memory
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

    def write(self, log: Log, turn: int, start_ps: int, cause: int) -> range:
        """Its records, each waiting for the one before; returns their numbers."""
        first = log.chained(self.numbers, turn, start_ps, self.offsets, cause)
        for place, number, through_ps in self.traffic:
            begin = start_ps + self.offsets[place]
            waited = first + place - 1 if place else cause
            row = log.over(number, turn, begin, begin + through_ps, waited)
            log.resource.append(self.memory)
            log.done.append(row)
        return range(first, first + len(self.numbers))
