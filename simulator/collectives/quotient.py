"""What many copies of a message do to the links, worked out for one of them.

A cube's cores send all the same at once: beside a message from a to b there is
one from a' to b' for all that differ from it in ``free`` axes, in both alike.
Links that copies load alike are one link here, which is loaded as each of them
is. Of 16 cores on a tree, each of which sends to the one behind it (axes 1111,
free 1110), the eight pairs are copies: one message 0000 to 0001, and of every
level of the tree one link, on which it counts as often as pairs share it.

    level of links   cores apart at   links   message crosses   counts each
    of two cores     1110             8       no: ends agree    -
    of single cores  1111             16      yes               1
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from hardware import Wires
from hardware.interconnect.torus import Grid
from simulator.collectives.cubes import Cube, Links, Pairs, Places, corners, packed
from simulator.engine.jobs import Floats, Ints, Load

MESSAGES_AT_ONCE = 1 << 17
Ends = tuple[Ints, Ints]
"""Sources and targets."""


@dataclass(frozen=True, slots=True, eq=False)
class _Section:
    """Links of one sort and where they are in a quotient: from ``start`` on, so many.

    ``axes`` are those that tell a copy's link from others'.
    """

    links: Links | Places | Pairs
    first_link: int
    start: int
    size: int
    axes: int


class Quotient:
    """The links of a cube where messages have a copy for every combination of ``free`` bits."""

    def __init__(self, cube: Cube, free: int) -> None:
        self.cube = cube
        self.free = free
        self.size = 0
        self._sections = [
            [self._section(links, reach.first_link) for links in reach.links]
            for reach in cube.reaches
        ]

    def _section(self, links: Links | Places | Pairs, first_link: int) -> _Section:
        if isinstance(links, Places):
            axes = links.copy_axes & ~self.free
            size = len(_copies_of(links, 1).bandwidth) << axes.bit_count()
        else:
            axes = links.axes & ~self.free
            size = 1 << axes.bit_count()
            if isinstance(links, Pairs):
                size <<= links.axes.bit_count()
            elif links.down is not None and not links.both:
                size *= 2
        self.size += size
        return _Section(links, first_link, self.size - size, size, axes)

    def _copies(self, axes: int) -> int:
        """How many copies of a message cross the same link, where links differ in these axes."""
        return 1 << (self.free & ~axes).bit_count()

    def carry(self, sources: Ints, targets: Ints) -> tuple[Floats, Ends]:
        """Flows on every link when all these corners send, and their copies; and far messages.

        Those (core numbers) have the longest latency of all.
        """
        total, far = np.zeros(self.size), []
        for sections, a, b in self._by_reach(sources, targets):
            ends = a[:1], b[:1]
            for section in sections:
                if isinstance(section.links, Places):
                    ends = self._on_grid(section, a, b, total)
                else:
                    self._on_links(section, a, b, total)
            far.append(ends)
        return total, self._cores(far)

    def _by_reach(
        self, sources: Ints, targets: Ints
    ) -> Iterator[tuple[list[_Section], Ints, Ints]]:
        """The messages that each subnet carries, those of the nearest first."""
        apart = sources != targets
        a, b = sources[apart], targets[apart]
        for reach, sections in zip(self.cube.reaches, self._sections, strict=True):
            here = (a ^ b) & reach.region == 0
            if here.any():
                yield sections, a[here], b[here]
                a, b = a[~here], b[~here]

    def _cores(self, far: list[Ends]) -> Ends:
        none = np.zeros(0, dtype=np.int64)
        a = np.concatenate([none, *(ends[0] for ends in far)])
        b = np.concatenate([none, *(ends[1] for ends in far)])
        return self.cube.cores(a), self.cube.cores(b)

    def _on_links(self, section: _Section, a: Ints, b: Ints, total: Floats) -> None:
        links = section.links
        if isinstance(links, Pairs):
            way = packed(a ^ b, links.axes) << section.axes.bit_count()
            self._count(total, section.start, way | packed(a, section.axes), links.axes)
        elif isinstance(links, Links):
            if links.apart:
                crosses = (a ^ b) & links.axes != 0
                a, b = a[crosses], b[crosses]
            if len(a):
                self._count(total, section.start, packed(a, section.axes), links.axes)
                if links.down is not None:
                    down = section.start + (0 if links.both else section.size // 2)
                    self._count(total, down, packed(b, section.axes), links.axes)

    def _count(self, total: Floats, start: int, links: Ints, axes: int) -> None:
        counts = np.bincount(links)
        total[start : start + len(counts)] += counts * self._copies(axes)

    def _on_grid(self, section: _Section, a: Ints, b: Ints, total: Floats, weight: int = 1) -> Ends:
        """Add flows on a grid, where every copy in one place counts; the ends of the longest way."""
        places = section.links
        assert isinstance(places, Places)
        copies = _copies_of(places, 1 << section.axes.bit_count())
        size = places.grid.size
        turned = corners(self.free & places.place_axes)
        weight *= self._copies(places.copy_axes | places.place_axes)
        far, most = (a[:1], b[:1]), -1.0
        at_once = max(MESSAGES_AT_ONCE // len(turned), 1)
        for first in range(0, len(a), at_once):
            sources = np.bitwise_xor.outer(a[first : first + at_once], turned).ravel()
            targets = np.bitwise_xor.outer(b[first : first + at_once], turned).ravel()
            copy = packed(sources, section.axes) * size
            nodes = [
                copy + places.nodes[packed(ends, places.place_axes)] for ends in (sources, targets)
            ]
            flows = np.full(len(sources), float(weight))
            total[section.start : section.start + section.size] += copies.loads(*nodes, flows)
            hops = copies.hops(*nodes)
            longest = int(hops.argmax())
            if hops[longest] > most:
                most = float(hops[longest])
                far = sources[longest : longest + 1], targets[longest : longest + 1]
        return far

    def everyone(self, members: int) -> tuple[Floats, Ends]:
        """What ``carry`` finds where every corner sends to all that differ in ``members`` from it.

        All of ``members`` are free. On a grid, messages go along x first: on a
        row, those from x1 to x2 are as many as there are targets above and
        below x2, and so on. So each dimension is counted by itself:
        of 32 x 32 nodes not 1,024 x 1,023 messages but twice 1,024 x 31.
        """
        first = np.zeros(1, dtype=np.int64)
        total, far = np.zeros(self.size), []
        distances = corners(members)[1:]
        for sections, a, b in self._by_reach(np.zeros_like(distances), distances):
            ends = first, b[:1]
            for section in sections:
                links = section.links
                if isinstance(links, Places) and links.dimensions:
                    others = members & ~links.copy_axes & ~links.place_axes
                    ends = self._boxes(section, links, members, 1 << others.bit_count(), total)
                elif isinstance(links, Places):
                    ends = self._on_grid(section, a, b, total)
                else:
                    self._on_links(section, a, b, total)
            far.append(ends)
        return total, self._cores(far)

    def _boxes(
        self, section: _Section, places: Places, members: int, others: int, total: Floats
    ) -> Ends:
        """Everyone to everyone in a box of a grid, dimension by dimension."""
        source = target = np.zeros(1, dtype=np.int64)
        inside = (members & places.place_axes).bit_count()
        for along in places.dimensions:
            distances = corners(members & along)[1:]
            if not len(distances):
                continue
            weight = others << (inside - (members & along).bit_count())
            a, b = self._on_grid(section, np.zeros_like(distances), distances, total, weight)
            source, target = source | (a & along), target | (b & along)
        return source, target

    def bandwidth(self, wires: Wires) -> Floats:
        """Of every link, the least of all that it stands for."""
        found = np.full(self.size, np.inf)
        for section in self._all():
            for here, real in self._real(section):
                np.minimum.at(found, here, wires.bandwidth[real])
        return found

    def everywhere(self, load: Load) -> Load:
        """A load of these links as one of the array's links."""
        dense = np.zeros(self.size)
        dense[load.links] = load.flows
        links, flows = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
        for section in self._all():
            if dense[section.start : section.start + section.size].any():
                for here, real in self._real(section):
                    values = dense[here]
                    used = values > 0
                    links.append(real[used])
                    flows.append(values[used])
        found = np.concatenate(links)
        order = np.argsort(found, kind="stable")
        return Load(found[order], np.concatenate(flows)[order])

    def _all(self) -> Iterator[_Section]:
        return (section for sections in self._sections for section in sections)

    def _real(self, section: _Section) -> Iterator[tuple[Ints, Ints]]:
        """Numbers of a section's links here, and of the array's links that they stand for."""
        links = section.links
        if isinstance(links, Places):
            yield self._real_places(section, links)
        elif isinstance(links, Pairs):
            yield self._real_pairs(section, links)
        else:
            here = section.start + packed(corners(links.axes), section.axes)
            yield here, links.up
            if links.down is not None and not links.both:
                yield here + section.size // 2, links.down

    def _real_places(self, section: _Section, places: Places) -> tuple[Ints, Ints]:
        each = np.arange(len(_copies_of(places, 1).bandwidth))
        copies = packed(corners(places.copy_axes), section.axes)
        here = section.start + np.add.outer(copies * len(each), each)
        real = section.first_link + np.add.outer(places.copies * len(each), each)
        return here.ravel(), real.ravel()

    def _real_pairs(self, section: _Section, pairs: Pairs) -> tuple[Ints, Ints]:
        a, b = (ends.ravel() for ends in np.meshgrid(corners(pairs.axes), corners(pairs.axes)))
        a, b = a[a != b], b[a != b]
        way = packed(a ^ b, pairs.axes) << section.axes.bit_count()
        here = section.start + (way | packed(a, section.axes))
        nodes = (pairs.nodes[packed(ends, pairs.axes)] for ends in (a, b))
        return here, section.first_link + pairs.fabric.link(*nodes)


def _copies_of(places: Places, copies: int) -> Grid:
    grid = places.grid
    return _grid(grid.shape, copies, grid.wrap, grid.two_way)


@lru_cache(maxsize=64)
def _grid(shape: tuple[int, ...], copies: int, wrap: bool, two_way: bool) -> Grid:
    """So many copies of a grid, whose bandwidths nobody asks for."""
    ports = np.ones(copies * int(np.prod(shape)))
    return Grid(shape, ports, 0.0, lambda _: "", wrap=wrap, two_way=two_way)
