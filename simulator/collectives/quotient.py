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
from simulator.collectives.cubes import Cube, Links, Pairs, Places, corners
from simulator.collectives.kept import KEPT, speeds
from simulator.collectives.sections import (
    Ends,
    LinkSection,
    PairSection,
    PlaceSection,
    Section,
)
from simulator.engine.jobs import Floats, Ints, Load


class Quotient:
    """The links of a cube where messages have a copy for every combination of ``free`` bits."""

    def __init__(self, cube: Cube, free: int) -> None:
        self._cube = cube
        self.size = 0
        self._sections = [
            [self._section(links, reach.first_link, free) for links in reach.links]
            for reach in cube.reaches
        ]

    def _section(self, links: Links | Places | Pairs, first_link: int, free: int) -> Section:
        section: Section
        if isinstance(links, Places):
            section = PlaceSection(links, first_link, self.size, free)
        elif isinstance(links, Pairs):
            section = PairSection(links, first_link, self.size, free)
        else:
            section = LinkSection(links, first_link, self.size, free)
        self.size += section.size
        return section

    def carry(self, sources: Ints, targets: Ints) -> tuple[Floats, Ends]:
        """Flows on every link when these corners send, and their copies; and far messages.

        Of those (ends are core numbers) one has the longest latency of all.
        """
        flows, far = np.zeros(self.size), []
        for sections, a, b in self._by_reach(sources, targets):
            ends = [section.count(a, b, flows) for section in sections]
            far.extend(ends[:1])
        return flows, self._cores(far)

    def everyone(self, members: int) -> tuple[Floats, Ends]:
        """What ``carry`` finds where every corner sends to all that differ in ``members`` from it.

        All of these axes are free.
        """
        flows, far = np.zeros(self.size), []
        distances = corners(members)[1:]
        for sections, a, b in self._by_reach(np.zeros_like(distances), distances):
            for i, section in enumerate(sections):
                box = (
                    section.everyone(members, flows) if isinstance(section, PlaceSection) else None
                )
                ends = section.count(a, b, flows) if box is None else box
                far.extend([ends] if i == 0 else [])
        return flows, self._cores(far)

    def _by_reach(self, sources: Ints, targets: Ints) -> Iterator[tuple[list[Section], Ints, Ints]]:
        """The messages that each subnet carries, those of the nearest first."""
        apart = sources != targets
        a, b = sources[apart], targets[apart]
        for reach, sections in zip(self._cube.reaches, self._sections, strict=True):
            here = (a ^ b) & reach.region == 0
            if here.any():
                yield sections, a[here], b[here]
                a, b = a[~here], b[~here]

    def _cores(self, far: list[Ends]) -> Ends:
        none = np.zeros(0, dtype=np.int64)
        a = np.concatenate([none, *(ends[0] for ends in far)])
        b = np.concatenate([none, *(ends[1] for ends in far)])
        return self._cube.cores(a), self._cube.cores(b)

    def bandwidth(self, wires: Wires) -> Floats:
        """Of every link, the least of all that it stands for."""
        found = np.empty(self.size)
        for section in self._all():
            key = speeds(wires.array), section.of
            low, high = KEPT.get("slowest and fastest", key, partial(_range, section, wires))
            found[section.start : section.start + section.size] = np.inf if low < high else low
            for here, real in section.real() if low < high else ():
                np.minimum.at(found, here, wires.bandwidth[real])
        return found

    def everywhere(self, load: Load) -> Load:
        """A load of these links as one of the array's links."""
        dense = np.zeros(self.size)
        dense[load.links] = load.flows
        links, flows = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
        for section in self._all():
            if dense[section.start : section.start + section.size].any():
                for here, real in section.real():
                    values = dense[here]
                    used = values > 0
                    links.append(real[used])
                    flows.append(values[used])
        found = np.concatenate(links)
        order = np.argsort(found, kind="stable")
        return Load(found[order], np.concatenate(flows)[order])

    def _all(self) -> Iterator[Section]:
        return (section for sections in self._sections for section in sections)


def _range(section: Section, wires: Wires) -> tuple[float, float]:
    """The least and the largest bandwidth of all links that a section stands for."""
    found = np.concatenate([wires.bandwidth[real] for _, real in section.real()])
    return float(found.min(initial=np.inf)), float(found.max(initial=0.0))
