"""Links of one sort in a quotient: how many are told apart, and what copies of messages load.

A message from a to b has a copy for every combination of the bits of ``free``
(see ``simulator.collectives.quotient``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from simulator.collectives.bits import corners, packed
from simulator.collectives.cubes import Line, Links, Pairs
from simulator.engine.jobs import Floats, Ints

MESSAGES_AT_ONCE = 1 << 17
Ends = tuple[Ints, Ints]
"""Sources and targets."""


@dataclass(frozen=True, slots=True)
class Copies:
    """Which messages there are: of each one for every combination of the ``free`` bits.

    Of the others members differ in some; all agree on the bits ``fixed``,
    which are those of ``base``.
    """

    free: int
    fixed: int
    base: int


class Hops(NamedTuple):
    """How many links of a line each message crosses, that of its copies that crosses most.

    That copy has the bits ``turned`` turned round.
    """

    most: Ints
    turned: Ints


class Section(ABC):
    """Some links of a quotient: from ``start`` on, ``size`` of them.

    ``axes`` are the bits that tell them apart; for every combination of these
    there are ``each`` links. ``own`` are all bits that tell the array's links
    apart which they stand for.
    """

    own: int
    each: int = 1

    def __init__(self, start: int, copies: Copies) -> None:
        self.start = start
        self.copies = copies
        self.axes = self.own & ~copies.free & ~copies.fixed
        self.size = self.each << self.axes.bit_count()

    def crossed(self, axes: int) -> int:
        """How many copies of a message cross the same link, if links differ in these axes."""
        return 1 << (self.copies.free & ~axes).bit_count()

    @abstractmethod
    def count(self, a: Ints, b: Ints, flows: Floats, weight: int = 1) -> Hops | None:
        """Add what these messages and their copies load, each so many times.

        Where latencies depend on the way, how far they go.
        """

    @abstractmethod
    def real(self, bits: Ints) -> Ints:
        """The array's links at some combinations of ``own`` bits: by combination and ``each``.

        -1 where there is none.
        """

    def corners(self) -> Ints:
        """All combinations of ``own`` bits that its links stand for."""
        return corners(self.own & ~self.copies.fixed) | (self.copies.base & self.own)


class LinkSection(Section):
    """Links up (of messages' sources) or down (of their targets), or both in one.

    Those of a copy are told apart by the axes that are not free. A bus has one
    link, a chip's HBM one for both ways.
    """

    def __init__(self, links: Links, ways: str, start: int, copies: Copies) -> None:
        self.links = links
        self.ways = ways
        self.own = links.axes
        super().__init__(start, copies)

    def count(self, a: Ints, b: Ints, flows: Floats, weight: int = 1) -> None:  # noqa: D102
        if self.links.apart:
            crosses = np.flatnonzero((a ^ b) & self.own)
            if not len(crosses):
                return
            if len(crosses) < len(a):
                a, b = a[crosses], b[crosses]
        many = weight * self.crossed(self.own)
        for ends in (a,) * ("up" in self.ways) + (b,) * ("down" in self.ways):
            if self.axes:
                counts = np.bincount(packed(ends, self.axes))
                flows[self.start : self.start + len(counts)] += counts * many
            else:
                flows[self.start] += len(ends) * many

    def real(self, bits: Ints) -> Ints:  # noqa: D102
        links = self.links.up if "up" in self.ways or self.links.down is None else self.links.down
        return links[packed(bits, self.own)][:, np.newaxis]


class PairSection(Section):
    """A link for every pair of nodes: a copy's has the same distance, and another source."""

    def __init__(self, links: Pairs, start: int, copies: Copies) -> None:
        self.links = links
        self.own = links.axes
        self.each = 1 << links.apart.bit_count()
        super().__init__(start, copies)

    def count(self, a: Ints, b: Ints, flows: Floats, weight: int = 1) -> None:  # noqa: D102
        here = packed(a, self.axes) * self.each + packed(a ^ b, self.links.apart)
        counts = np.bincount(here)
        flows[self.start : self.start + len(counts)] += counts * (weight * self.crossed(self.own))

    def real(self, bits: Ints) -> Ints:  # noqa: D102
        source = bits[:, np.newaxis]
        ends = (packed(end, self.own) for end in (source, source ^ corners(self.links.apart)))
        a, b = np.broadcast_arrays(*(self.links.nodes[end] for end in ends))
        return np.where(a == b, -1, self.links.first_link + self.links.fabric.link(a, b))


class LineSection(Section):
    """Links along one dimension of a grid: lines are told apart, and every place on one.

    Routes take the dimensions in turn, so a message goes along this one where
    it came to in those before, and where it began in those behind. On a line
    routes know left from right: messages are followed from every place on it.
    """

    def __init__(self, line: Line, start: int, copies: Copies) -> None:
        self.line = line
        self.own = line.before | line.behind
        self.each = 2 * line.grid.shape[line.dimension]
        super().__init__(start, copies)

    def count(self, a: Ints, b: Ints, flows: Floats, weight: int = 1) -> Hops:  # noqa: D102
        line, along = self.line, self.line.along
        turned = corners(self.copies.free & along)
        many = weight * self.crossed(self.own | along)
        most, turn = np.zeros(len(a), dtype=np.int64), np.zeros(len(a), dtype=np.int64)
        lines = 1 << self.axes.bit_count()
        dense = flows[self.start : self.start + self.size].reshape(lines, -1, 2)
        at_once = max(MESSAGES_AT_ONCE // len(turned), 1)
        for first in range(0, len(a), at_once):
            some = slice(first, first + at_once)
            on = (b[some] & line.before | a[some] & line.behind)[:, np.newaxis] & self.axes
            here, there = (
                line.at[packed(ends[some, np.newaxis] ^ turned, along)] for ends in (a, b)
            )
            steps = line.grid.steps(here, there, line.dimension)
            furthest = np.abs(steps)
            best = furthest.argmax(axis=1)
            most[some], turn[some] = furthest[np.arange(len(best)), best], turned[best]
            which = np.broadcast_to(packed(on, self.axes), steps.shape).ravel()
            each = np.full(steps.size, float(many))
            dense += line.grid.along(
                line.dimension, lines, which, here.ravel(), steps.ravel(), each
            )
        return Hops(most, turn)

    def real(self, bits: Ints) -> Ints:  # noqa: D102
        line = self.line
        nodes = line.nodes[packed(bits, line.place_axes | line.copy_axes)]
        links = line.grid.line(line.dimension, nodes).reshape(len(bits), -1)
        return np.where(links < 0, -1, line.first_link + links)
