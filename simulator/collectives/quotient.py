"""What many copies of a message do to the links, worked out for one of them.

Cores of a cube send alike at once: beside a message from a to b there is one
from a' to b' for all that differ from it in ``free`` axes, both ends alike.
Links that copies load alike are one link here, which is loaded as each of them
is. Of 16 cores on a tree each exchanges with its neighbour (axes 1111, 0001
differs between the two, all are free): one message, 0000 to 0001, stands for
16, and one link of every level for all of it.

    links of              told apart by   so many   crossed    by of the copies
    two cores and more    1110            8         no         -
    single cores          1111            16        yes        16 / 16 = 1
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from hardware import Wires
from simulator.collectives.bits import corners, packed
from simulator.collectives.cubes import Cube, Line, Links, Pairs, Reach
from simulator.collectives.kept import KEPT, speeds
from simulator.collectives.sections import (
    Copies,
    Ends,
    LineSection,
    LinkSection,
    PairSection,
    Section,
)
from simulator.engine.jobs import Floats, Ints, Load


class Quotient:
    """The links of a cube as messages with these ``copies`` tell them apart."""

    def __init__(self, cube: Cube, copies: Copies) -> None:
        self.cube = cube
        self.copies = copies
        self.size = 0
        self._reaches = [
            (reach, [section for links in reach.links for section in self._sections(links)])
            for reach in cube.reaches
        ]
        self.sections = [section for _, sections in self._reaches for section in sections]
        """All links, by sorts."""
        self._starts = np.array([*(section.start for section in self.sections), self.size])

    def __eq__(self, other: object) -> bool:
        """Quotients of equal cubes and copies number links alike."""
        return isinstance(other, Quotient) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Cube, Copies]:
        return self.cube, self.copies

    def _sections(self, links: Links | Line | Pairs) -> Iterator[Section]:
        if isinstance(links, Line):
            yield self._placed(LineSection(links, self.size, self.copies))
        elif isinstance(links, Pairs):
            yield self._placed(PairSection(links, self.size, self.copies))
        else:
            for ways in links.ways:
                yield self._placed(LinkSection(links, ways, self.size, self.copies))

    def _placed(self, section: Section) -> Section:
        self.size += section.size
        return section

    def carry(self, sources: Ints, targets: Ints) -> tuple[Floats, Ends]:
        """Flows on every link when these corners send, and their copies; and far messages.

        Of those (ends are core numbers) one has the longest latency of all.
        """
        flows, far = np.zeros(self.size), []
        for _, sections, a, b in self._by_reach(sources, targets):
            hops, turned = np.zeros(len(a), dtype=np.int64), np.zeros(len(a), dtype=np.int64)
            for section in sections:
                along = section.count(a, b, flows)
                if along is not None:
                    hops += along.most
                    turned |= along.turned
            longest = int(hops.argmax())
            far.append((a[longest] ^ turned[longest], b[longest] ^ turned[longest]))
        return flows, self._cores(far)

    def everyone(self, members: int) -> tuple[Floats, Ends]:
        """What ``carry`` finds where every corner sends to all that differ in ``members`` from it.

        All of these axes are free. Messages in a grid go along x first: on a
        row, those from x1 to x2 are as many as there are sources at x1 times
        targets at x2 that take this row, the same for all x1 and x2. So
        dimensions are counted one by one: of 32 x 32 nodes not 1,024 x 1,023
        messages, but twice 1,024 x 31.
        """
        flows, far = np.zeros(self.size), []
        distances = corners(members)[1:]
        here = np.full_like(distances, self.copies.base)
        for reach, sections, a, b in self._by_reach(here, here ^ distances):
            source, target = a[0], b[0]
            lines = [section for section in sections if isinstance(section, LineSection)]
            if lines:
                source = target = self.copies.base
            for section in sections:
                if isinstance(section, LineSection):
                    turned, distance = _all_along(section, members & ~reach.region, flows)
                    source, target = source ^ turned, target ^ turned ^ distance
                else:
                    section.count(a, b, flows)
            far.append((source, target))
        return flows, self._cores(far)

    def _by_reach(
        self, sources: Ints, targets: Ints
    ) -> Iterator[tuple[Reach, list[Section], Ints, Ints]]:
        """The messages that each subnet carries, those of the nearest first."""
        apart = sources != targets
        a, b = sources[apart], targets[apart]
        for reach, sections in self._reaches:
            here = (a ^ b) & reach.region == 0
            if here.any():
                yield reach, sections, a[here], b[here]
                a, b = a[~here], b[~here]

    def _cores(self, far: list[tuple[int, int]]) -> Ends:
        ends = np.array(far, dtype=np.int64).reshape(-1, 2)
        return self.cube.cores(ends[:, 0]), self.cube.cores(ends[:, 1])

    def bandwidth(self, wires: Wires) -> Floats:
        """Of every link, the least of all that it stands for."""
        found = np.full(self.size, np.inf)
        for number, section in enumerate(self.sections):
            low, high = self.range_of(number, wires)
            part = found[section.start : section.start + section.size]
            if low == high:
                part[:] = low
            else:
                bits, real = section.corners(), section.real(section.corners())
                np.minimum.at(
                    part.reshape(-1, section.each),
                    packed(bits, section.axes),
                    np.where(real < 0, np.inf, wires.bandwidth[real]),
                )
        return found

    def range_of(self, number: int, wires: Wires) -> tuple[float, float]:
        """The least and the largest bandwidth of all links that a section may stand for."""
        return self._ranges(wires)[number]

    def _ranges(self, wires: Wires) -> list[tuple[float, float]]:
        key = speeds(wires), self.cube
        return KEPT.get("ranges", key, lambda: [_range(one, wires) for one in self.sections])

    def seconds_per_byte(self, load: Load, wires: Wires) -> float:
        """How long a byte of every flow takes when a load has the wires for itself."""
        ranges, found = self._ranges(wires), 0.0
        for number, most in KEPT.get("most", load, partial(self._most, load)):
            low, high = ranges[number]
            if low != high:
                key = speeds(wires), self
                bandwidth = KEPT.get("bandwidth", key, partial(self.bandwidth, wires))
                return load.seconds_per_byte(bandwidth)
            found = max(found, most / low)
        return found

    def _most(self, load: Load) -> list[tuple[int, float]]:
        """The most flows on a link of each section that carries some."""
        bounds = np.searchsorted(load.links, self._starts)
        there = np.flatnonzero(bounds[1:] > bounds[:-1])
        if not len(there):
            return []
        most = np.maximum.reduceat(load.flows, bounds[there])
        return list(zip(there.tolist(), most.tolist(), strict=True))

    def everywhere(self, load: Load) -> Load:
        """A load of these links as one of the array's links."""
        return KEPT.get("everywhere", load, partial(self._everywhere, load))

    def _everywhere(self, load: Load) -> Load:
        dense = np.zeros(self.size)
        dense[load.links] = load.flows
        links, flows = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
        for section in self.sections:
            values = dense[section.start : section.start + section.size].reshape(-1, section.each)
            if values.any():
                bits = section.corners()
                real, each = section.real(bits), values[packed(bits, section.axes)]
                used = (each > 0) & (real >= 0)
                links.append(real[used])
                flows.append(each[used])
        found = np.concatenate(links)
        order = np.argsort(found, kind="stable")
        return Load(found[order], np.concatenate(flows)[order])


def _all_along(section: LineSection, members: int, flows: Floats) -> tuple[int, int]:
    """Count what all send to everyone else in a box along its lines; who goes farthest, how far.

    Weighed by how many that do not differ along the line send at once.
    """
    along = members & section.line.along
    distances = corners(along)[1:]
    if not len(distances):
        return 0, 0
    base = np.full_like(distances, section.copies.base)
    weight = 1 << (members & ~along).bit_count()
    hops = section.count(base, base ^ distances, flows, weight)
    longest = int(hops.most.argmax())
    return int(hops.turned[longest]), int(distances[longest])


def _range(section: Section, wires: Wires) -> tuple[float, float]:
    """The least and the largest bandwidth of all links that a section may stand for."""
    real = section.real(corners(section.own))
    found = wires.bandwidth[real[real >= 0]]
    return float(found.min(initial=np.inf)), float(found.max(initial=0.0))
