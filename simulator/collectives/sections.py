"""Links of one sort in a quotient: how many are told apart, and what copies of messages load.

A message from a to b has a copy for every combination of the bits of ``free``
(see ``simulator.collectives.quotient``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from functools import lru_cache

import numpy as np

from hardware.interconnect.torus import Grid
from simulator.collectives.cubes import Links, Pairs, Places, corners, packed
from simulator.engine.jobs import Floats, Ints

MESSAGES_AT_ONCE = 1 << 17
Ends = tuple[Ints, Ints]
"""Sources and targets."""


class Section(ABC):
    """Some links of a quotient: from ``start`` on, ``size`` of them; ``of`` says which they are."""

    size: int

    def __init__(self, of: Links | Places | Pairs, first_link: int, start: int, free: int) -> None:
        self.of = of
        self.first_link = first_link
        self.start = start
        self.free = free

    def copies(self, axes: int) -> int:
        """How many copies of a message cross the same link, if links differ in these axes."""
        return 1 << (self.free & ~axes).bit_count()

    @abstractmethod
    def count(self, a: Ints, b: Ints, flows: Floats) -> Ends:
        """Add what these messages and their copies load; returns one with the longest latency."""

    @abstractmethod
    def real(self) -> Iterator[tuple[Ints, Ints]]:
        """Numbers of links in the quotient, and of the array's links that they stand for."""


class LinkSection(Section):
    """Links up and down: those of a copy are told apart by the axes that are not free.

    A bus has one link, a chip's HBM one for both ways.
    """

    def __init__(self, links: Links, first_link: int, start: int, free: int) -> None:
        super().__init__(links, first_link, start, free)
        self.links = links
        self._axes = links.axes & ~free
        each = 1 << self._axes.bit_count()
        self._two = links.down is not None and links.down is not links.up
        self.size = 2 * each if self._two else each

    def count(self, a: Ints, b: Ints, flows: Floats) -> Ends:  # noqa: D102
        far = a[:1], b[:1]
        if self.links.apart:
            crosses = (a ^ b) & self.links.axes != 0
            a, b = a[crosses], b[crosses]
        if len(a):
            self._add(flows, self.start, a)
            if self.links.down is not None:
                self._add(flows, self.start + (self.size // 2 if self._two else 0), b)
        return far

    def _add(self, flows: Floats, start: int, ends: Ints) -> None:
        counts = np.bincount(packed(ends, self._axes))
        flows[start : start + len(counts)] += counts * self.copies(self.links.axes)

    def real(self) -> Iterator[tuple[Ints, Ints]]:  # noqa: D102
        here = self.start + packed(corners(self.links.axes), self._axes)
        yield here, self.links.up
        if self._two and self.links.down is not None:
            yield here + self.size // 2, self.links.down


class PairSection(Section):
    """A link for every pair of nodes: a copy's has the same distance, and another source."""

    def __init__(self, links: Pairs, first_link: int, start: int, free: int) -> None:
        super().__init__(links, first_link, start, free)
        self.links = links
        self._axes = links.axes & ~free
        self.size = 1 << self._axes.bit_count() + links.axes.bit_count()

    def count(self, a: Ints, b: Ints, flows: Floats) -> Ends:  # noqa: D102
        counts = np.bincount(self._here(a, b))
        here = slice(self.start, self.start + len(counts))
        flows[here] += counts * self.copies(self.links.axes)
        return a[:1], b[:1]

    def _here(self, a: Ints, b: Ints) -> Ints:
        distance = packed(a ^ b, self.links.axes)
        return distance << self._axes.bit_count() | packed(a, self._axes)

    def real(self) -> Iterator[tuple[Ints, Ints]]:  # noqa: D102
        nodes = corners(self.links.axes)
        a, b = np.repeat(nodes, len(nodes)), np.tile(nodes, len(nodes))
        a, b = a[a != b], b[a != b]
        source, target = (self.links.nodes[packed(ends, self.links.axes)] for ends in (a, b))
        links = self.first_link + self.links.fabric.link(source, target)
        yield self.start + self._here(a, b), links


class PlaceSection(Section):
    """Links of a grid: of its copies those that are not free are told apart.

    In one grid, messages are followed from every place: routes know left from right.
    """

    def __init__(self, links: Places, first_link: int, start: int, free: int) -> None:
        super().__init__(links, first_link, start, free)
        self.links = links
        self._axes = links.copy_axes & ~free
        grid = links.grid
        self._grids = _copies(grid.shape, 1 << self._axes.bit_count(), grid.wrap, grid.two_way)
        self.size = len(self._grids.bandwidth)

    def count(self, a: Ints, b: Ints, flows: Floats, weight: int = 1) -> Ends:  # noqa: D102
        places = self.links
        turned = corners(self.free & places.place_axes)
        many = float(weight * self.copies(places.copy_axes | places.place_axes))
        far, most = (a[:1], b[:1]), -1.0
        at_once = max(MESSAGES_AT_ONCE // len(turned), 1)
        for first in range(0, len(a), at_once):
            sources, targets = (
                np.bitwise_xor.outer(ends[first : first + at_once], turned).ravel()
                for ends in (a, b)
            )
            source, target = self._nodes(sources), self._nodes(targets)
            here = slice(self.start, self.start + self.size)
            flows[here] += self._grids.loads(source, target, np.full(len(source), many))
            hops = self._grids.hops(source, target)
            longest = int(hops.argmax())
            if hops[longest] > most:
                most = float(hops[longest])
                far = sources[longest : longest + 1], targets[longest : longest + 1]
        return far

    def _nodes(self, ends: Ints) -> Ints:
        copy = packed(ends, self._axes) * self.links.grid.size
        return copy + self.links.nodes[packed(ends, self.links.place_axes)]

    def everyone(self, members: int, flows: Floats) -> Ends | None:
        """What all load that send to everyone else among ``members``; None if that is not a box.

        Messages go along x first: on a row, those from x1 to x2 are as many as
        there are sources at x1 times targets at x2 that take this row. In a
        box that is the same for all x1 and x2, so dimensions are counted one by
        one: of 32 x 32 nodes not 1,024 x 1,023 messages, but twice 1,024 x 31.
        """
        if not self.links.dimensions:
            return None
        inside = members & self.links.place_axes
        others = members & ~inside & ~self.links.copy_axes
        source = target = np.zeros(1, dtype=np.int64)
        for along in self.links.dimensions:
            distances = corners(inside & along)[1:]
            if len(distances):
                weight = 1 << others.bit_count() + (inside & ~along).bit_count()
                a, b = self.count(np.zeros_like(distances), distances, flows, weight)
                source, target = source | (a & along), target | (b & along)
        return source, target

    def real(self) -> Iterator[tuple[Ints, Ints]]:  # noqa: D102
        links = self.links
        each = np.arange(self.size >> self._axes.bit_count())
        copies = packed(corners(links.copy_axes), self._axes)
        here = np.add.outer(copies * len(each), each).ravel()
        real = np.add.outer(links.copies * len(each), each).ravel()
        yield self.start + here, self.first_link + real


@lru_cache(maxsize=64)
def _copies(shape: tuple[int, ...], copies: int, wrap: bool, two_way: bool) -> Grid:
    """So many copies of a grid, whose bandwidths nobody asks for."""
    ports = np.ones(copies * int(np.prod(shape)))
    return Grid(shape, ports, 0.0, lambda _: "", wrap=wrap, two_way=two_way)
