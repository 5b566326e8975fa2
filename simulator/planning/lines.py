"""A core's lines in time: products one after the other, exchanges beside them on shared links."""

from __future__ import annotations

import math
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from simulator.planning.contention import Contention, Way


class Line(NamedTuple):
    """What takes some seconds once the lines that it ``needs`` are over.

    Without a ``way`` it is a product of the core; else an exchange.
    """

    seconds: float
    needs: tuple[int, ...]
    way: Way | None = None


class _Moving:
    """An exchange whose bytes are on the links; ``left_s`` if it had them for itself."""

    __slots__ = ("idle_s", "left_s", "number", "rate", "way")

    def __init__(self, number: int, way: Way, left_s: float, idle_s: float) -> None:
        self.number, self.way = number, way
        self.left_s, self.idle_s = left_s, idle_s
        self.rate = 1.0


def run(lines: Sequence[Line], contention: Contention) -> float:
    """When the last line is over.

    Exchanges begin as soon as they may. Those whose links are shared slow each
    other: two that need the same ones all the time take twice as long while both
    go on.
    """
    return _Run(lines, contention).end_s()


class _Run:
    def __init__(self, lines: Sequence[Line], contention: Contention) -> None:
        self._lines = lines
        self._contention = contention
        self._missing = [len(line.needs) for line in lines]
        self._after: list[list[int]] = [[] for _ in lines]
        for number, line in enumerate(lines):
            for other in line.needs:
                self._after[other].append(number)
        self._products = iter([n for n, line in enumerate(lines) if line.way is None])
        self._next = next(self._products, -1)
        self._busy = False
        """Whether the core computes."""
        self._moving: list[_Moving] = []
        self._ends: list[tuple[float, int]] = []
        """Of products, and of exchanges whose bytes are through, with the line's number."""
        self._now_s = 0.0

    def end_s(self) -> float:
        for number, line in enumerate(self._lines):
            if line.way is not None and not line.needs:
                self._move(number)
        self._compute()
        ends = self._ends
        while ends or self._moving:
            first, through_s = self._first_through()
            if first is None or (ends and ends[0][0] <= through_s):
                over_s, number = heappop(ends)
                self._pass(over_s)
                self._over(number)
            else:
                self._pass(through_s)
                self._moving.remove(first)
                self._rate()
                heappush(ends, (through_s + first.idle_s, first.number))
        return self._now_s

    def _first_through(self) -> tuple[_Moving | None, float]:
        """The exchange whose bytes are through first, if any move, and when they are."""
        moving = self._moving
        if not moving:
            return None, math.inf
        first = moving[0]
        if len(moving) > 1:
            first = min(moving, key=lambda one: one.left_s / one.rate)
        return first, self._now_s + first.left_s / first.rate

    def _pass(self, until_s: float) -> None:
        gone_s = until_s - self._now_s
        if gone_s > 0:
            for one in self._moving:
                one.left_s -= gone_s * one.rate
        self._now_s = until_s

    def _over(self, number: int) -> None:
        lines, missing = self._lines, self._missing
        if lines[number].way is None:
            self._busy = False
        for other in self._after[number]:
            missing[other] -= 1
            if not missing[other] and lines[other].way is not None:
                self._move(other)
        if not self._busy:
            self._compute()

    def _compute(self) -> None:
        """The core's next product, if it can begin."""
        number = self._next
        if number >= 0 and not self._missing[number]:
            self._busy = True
            heappush(self._ends, (self._now_s + self._lines[number].seconds, number))
            self._next = next(self._products, -1)

    def _move(self, number: int) -> None:
        seconds, way = self._lines[number].seconds, self._lines[number].way
        if way is None:
            raise ValueError(f"line {number} is a product")
        idle_s = min(seconds, self._contention.idle_s(way))
        self._moving.append(_Moving(number, way, seconds - idle_s, idle_s))
        self._rate()

    def _rate(self) -> None:
        if len(self._moving) == 1:
            self._moving[0].rate = 1.0
            return
        for one in self._moving:
            others = (o for o in self._moving if o is not one)
            one.rate = 1 / (1 + sum(self._contention.shared(one.way, o.way) for o in others))
