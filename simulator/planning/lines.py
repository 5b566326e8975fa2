"""A core's lines in time: products one after the other, exchanges beside them on shared links."""

from __future__ import annotations

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
    links = _Links(contention)
    moving = links.moving
    missing = [len(needs) for _, needs, _ in lines]
    after: list[list[int]] = [[] for _ in lines]
    products = []
    for number, (_, needs, way) in enumerate(lines):
        for other in needs:
            after[other].append(number)
        if way is None:
            products.append(number)
        elif not needs:
            links.add(number, lines[number])
    upcoming = iter([*products, -1])
    product, computes, now_s = next(upcoming), -1, 0.0
    ends: list[tuple[float, int]] = []  # of products, and of exchanges whose bytes are through
    while True:
        if computes < 0 and product >= 0 and not missing[product]:
            heappush(ends, (now_s + lines[product].seconds, product))
            computes, product = product, next(upcoming)
        if moving:
            first = links.first()
            through_s = now_s + first.left_s / first.rate
            if not ends or ends[0][0] > through_s:
                links.pass_(through_s - now_s)
                now_s = through_s
                links.remove(first)
                heappush(ends, (through_s + first.idle_s, first.number))
                continue
        elif not ends:
            return now_s
        over_s, over = heappop(ends)
        if moving:
            links.pass_(over_s - now_s)
        now_s = over_s
        if over == computes:
            computes = -1
        for other in after[over]:
            missing[other] -= 1
            if not missing[other] and lines[other].way is not None:
                links.add(other, lines[other])


class _Links:
    """The exchanges whose bytes move."""

    def __init__(self, contention: Contention) -> None:
        self._contention = contention
        self.moving: list[_Moving] = []

    def first(self) -> _Moving:
        """The one whose bytes are through first."""
        moving = self.moving
        return moving[0] if len(moving) == 1 else min(moving, key=_left_s)

    def pass_(self, gone_s: float) -> None:
        """So much time goes by."""
        if gone_s > 0:
            for one in self.moving:
                one.left_s -= gone_s * one.rate

    def add(self, number: int, line: Line) -> None:
        """One more, which slows the others."""
        seconds, _, way = line
        if way is None:
            raise ValueError(f"line {number} is a product")
        idle_s = min(seconds, self._contention.idle_s(way))
        self.moving.append(_Moving(number, way, seconds - idle_s, idle_s))
        if len(self.moving) > 1:
            self._rate()

    def remove(self, one: _Moving) -> None:
        """Its bytes are through."""
        self.moving.remove(one)
        if self.moving:
            self._rate()

    def _rate(self) -> None:
        moving = self.moving
        if len(moving) == 1:
            moving[0].rate = 1.0
            return
        shared = self._contention.shared
        for one in moving:
            one.rate = 1 / (1 + sum([shared(one.way, o.way) for o in moving if o is not one]))


def _left_s(one: _Moving) -> float:
    return one.left_s / one.rate
