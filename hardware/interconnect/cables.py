"""Nodes joined by cables that are written one by one, as the eight GPUs of a DGX-1."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from hardware.interconnect.fabric import Fabric, Floats, Ints, Label, cut, tally

Cable = tuple[int, int]
MOST_NODES = 16
"""That cables may join: ways and rings are looked for among all of them."""


def cables(written: object) -> list[Cable]:
    """Reads "0-3" as a cable between two nodes, "0-3 x2" as two."""
    found = re.fullmatch(r"(\d{1,3})-(\d{1,3})(?: x([1-9]))?", str(written), re.ASCII)
    if not isinstance(written, str) or found is None:
        raise ValueError('must be the two nodes of a cable, as "0-3", or "0-3 x2" for two')
    first, second, many = found.groups("1")
    return [(int(first), int(second))] * int(many)


def of_part(written: tuple[Cable, ...], size: int) -> tuple[Cable, ...]:
    """Of a mesh of more nodes those of its first ones; of anything else what is written."""
    nodes = max((max(cable) for cable in written), default=0) + 1
    if nodes <= size or any(cable_faults(written, nodes)):
        return written
    return tuple(cable for cable in written if max(cable) < size)


class Cables(Fabric):
    """So many nodes and the cables between them, or ``copies`` of that side by side.

    Two nodes may have several cables. A message takes the way with the fewest of
    them, of equals the first by nodes' numbers, and one cable of each pair on it.
    """

    has_places = True

    def __init__(
        self,
        cables: Sequence[Cable],
        size: int,
        copies: int,
        bytes_per_s: float,
        latency_s: float,
        label: Label,
    ) -> None:
        self.size, self._label = size, label
        ends = [end for a, b in cables for end in ((a, b), (b, a))]
        self._each = len(ends)
        shift = np.repeat(np.arange(copies) * size, self._each)
        sides = np.array(ends, dtype=np.int64).reshape(-1, 2).T
        source, target = (np.tile(side, copies) + shift for side in sides)
        self.ends: tuple[Ints, Ints] = source, target
        self.bandwidth = np.full(len(source), bytes_per_s)
        self.latency_s = np.full(len(source), latency_s)
        self._hop_s = latency_s
        self.links: dict[Cable, list[int]] = {}
        """Of the first copy: from a to b, a link for each of their cables."""
        for number, end in enumerate(ends):
            self.links.setdefault(end, []).append(number)
        self._ways = {(a, b): way for a in range(size) for b, way in self._ways_from(a).items()}

    def _ways_from(self, source: int) -> dict[int, list[int]]:
        """Breadth first: the cables from one node to every other."""
        reached: dict[int, list[int]] = {source: []}
        queue = [source]
        for a in queue:
            for b in range(self.size):
                if (a, b) in self.links and b not in reached:
                    reached[b] = [*reached[a], self.links[a, b][0]]
                    queue.append(b)
        return reached

    def shifted(self, node: int) -> int:
        """The first link of the copy that a node is in."""
        return node // self.size * self._each

    def route(self, source: int, target: int) -> list[int]:
        """The links that a message crosses, in order."""
        first = self.shifted(source)
        return [first + link for link in self._ways[source % self.size, target % self.size]]

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:  # noqa: D102
        routes = [self.route(a, b) for a, b in zip(sources.tolist(), targets.tolist(), strict=True)]
        counts = [len(route) for route in routes]
        links = np.array([link for route in routes for link in route], dtype=np.int64)
        return tally(links, np.repeat(flows, counts), len(self.bandwidth))

    def latencies(self, sources: Ints, targets: Ints) -> Floats:  # noqa: D102
        return self._hop_s * self.hops(sources, targets)

    def hops(self, sources: Ints, targets: Ints) -> Floats:
        """How many cables each message crosses."""
        pairs = zip(sources % self.size, targets % self.size, strict=True)
        return np.array([float(len(self._ways[int(a), int(b)])) for a, b in pairs])

    def names(self) -> list[str]:  # noqa: D102
        seen = Counter[Cable]()
        names = []
        for a, b in zip(*(end.tolist() for end in self.ends), strict=True):
            seen[a, b] += 1
            more = f" ({seen[a, b]})" if seen[a, b] > 1 else ""
            names.append(f"{self._label(a)} to {self._label(b)}{more}")
        return names

    def injection(self, first: range, second: range) -> float:
        """The cables between the sides; where there are none, one: what their messages share."""
        return cut(self.bandwidth, self.ends, first, second) or float(self.bandwidth[0])


def cable_faults(written: Sequence[Cable], size: int) -> Iterator[str]:
    """What is wrong with the cables of so many nodes."""
    for a, b in written:
        if a == b or max(a, b) >= size:
            yield f"{a}-{b}: a cable is between two of the nodes 0 to {size - 1}"
            return
    found = {0}
    while more := {n for cable in written if found & set(cable) for n in cable} - found:
        found |= more
    if len(found) < size:
        yield f"do not lead from node 0 to {', '.join(map(str, sorted({*range(size)} - found)))}"
