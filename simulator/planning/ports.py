"""How long collectives keep the links between nodes busy, at least: seconds a byte.

Exchanges that go on at once share links: all bytes that leave a node by its port take
at least their time there, one after the other. Which way a collective takes
depends on its size; the way that needs the ports least says what is sure. Of an
all-reduce of 1 MB in four nodes of eight cores every node sends 1.5 MB if tiers work one after
the other, and 1.94 MB if a ring goes through all cores: 1.5 are counted.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from simulator.collectives.algorithms import CollectiveError
from simulator.collectives.choice import every_offer
from simulator.collectives.offers import Offer
from simulator.engine.jobs import distinct
from simulator.planning.curves import Curves, Floats, Ints

SOME_BYTES = float(1 << 20)
"""What a way sends is in proportion to its size: one size says it."""


class Ports:
    """The links of like cores that an all-reduce among all of them keeps busy longest.

    Links are looked at by sort: of a switch all ports, of a tree all links of one level. A
    sort's mean over its links is counted, which no step can be shorter than, as its
    busiest link is busy no less. Links of rings, tori and meshes count nothing.
    """

    def __init__(self, curves: Curves) -> None:
        self._curves = curves
        self._rates: dict[tuple[str, int], float] = {}
        self._links: Ints = np.zeros(0, dtype=np.int64)
        everyone = (1 << curves.levels) - 1
        busiest = 0.0
        for links in _sorts(curves):
            found = self._least_s("all-reduce", everyone, links)
            if found > busiest:
                self._links, busiest = links, found

    def seconds(self, collective: str, masks: Ints, size_bytes: Floats) -> Floats:
        """What collectives of these sizes, each over its own mask, keep a link busy at least."""
        kinds, which = np.unique(masks, return_inverse=True)
        rates = np.array([self._rate(collective, mask) for mask in kinds.tolist()])
        found: Floats = rates[which].reshape(masks.shape) * size_bytes
        return found

    def relaid_s(self, changes: Ints, gathers: Ints, size_bytes: Floats) -> Floats:
        """The same until cores have so many bytes, of parts that change places and are gathered."""
        pieces = 2.0 ** np.bitwise_count(gathers.astype(np.uint64))
        exchanged_s = self.seconds("all-to-all", changes, size_bytes / pieces)
        return exchanged_s + self.seconds("all-gather", gathers, size_bytes)

    def _rate(self, collective: str, mask: int) -> float:
        if not mask or not len(self._links):
            return 0.0
        key = collective, mask
        if key not in self._rates:
            self._rates[key] = self._least_s(collective, mask, self._links)
        return self._rates[key]

    def _least_s(self, collective: str, mask: int, links: Ints) -> float:
        """For every byte, by the way that needs these links least."""
        curves = self._curves
        by = "auto" if collective == "all-to-all" else curves.algorithm
        how = curves.wires, collective, curves.groups(mask), SOME_BYTES, by
        try:
            return min(self._mean_s(way, links) for way in every_offer(*how)) / SOME_BYTES
        except CollectiveError:  # an algorithm that was asked for does not apply
            return 0.0

    def _mean_s(self, way: Offer, links: Ints) -> float:
        bandwidth = self._curves.wires.bandwidth
        busy_s = np.zeros(len(bandwidth))
        for job in way.jobs():
            load = job.load.everywhere()
            busy_s[load.links] += load.flows * job.flow_bytes / bandwidth[load.links]
        return float(busy_s[links].mean())


def _sorts(curves: Curves) -> Iterator[Ints]:
    """The links that messages of these cores go up by, one sort after the other."""
    cores = np.arange(curves.first, curves.first + (1 << curves.levels))
    for subnet in curves.wires.subnets[1:]:  # behind the chips' HBM
        here = cores[subnet.region[cores] >= 0]
        for level in subnet.fabric.levels():
            links = distinct(level.up[subnet.node[here]])
            if len(links := links[links >= 0]):
                yield subnet.links.start + links
