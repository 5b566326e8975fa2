"""A full connection: a link from every node to every other."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hardware.interconnect.fabric import Floats, Ints, Label, Level, Nodes, tally
from hardware.topology import Topology


class FullyConnected:
    """A link from every node to every other, as fast as the slower of the two.

    Or so many ``nodes`` after the other: of four nodes in twos, 0-1, 1-0, 2-3 and 3-2.
    """

    has_places = False

    def __init__(
        self, ports: Floats, latency_s: Floats, label: Label, nodes: int | None = None
    ) -> None:
        self._nodes = nodes = len(ports) if nodes is None else nodes
        self._label = label
        self.ports = ports
        source = np.repeat(np.arange(len(ports)), max(nodes - 1, 0))
        target = np.arange(len(source)) % max(nodes - 1, 1)
        target += target >= source % nodes
        target += source - source % nodes
        self.ends = source, target
        self.bandwidth = np.minimum(ports[source], ports[target])
        self.latency_s = latency_s[source]

    @classmethod
    def of(cls, topology: Topology, nodes: Nodes) -> FullyConnected:  # noqa: ARG003
        """The full connection of some nodes."""
        return cls(nodes.ports, nodes.latency_s, nodes.label)

    def link(self, source: Ints, target: Ints) -> Ints:
        """A node's links to all others in a row: of 3 nodes 0-1 0-2, 1-0 1-2, 2-0 2-1."""
        return source * (self._nodes - 1) + target % self._nodes - (target > source)

    def route(self, source: int, target: int) -> list[int]:  # noqa: D102
        return [source * (self._nodes - 1) + target % self._nodes - (target > source)]

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:  # noqa: D102
        links = self.link(sources, targets)
        return tally(links, flows, len(self.bandwidth))

    def latencies(self, sources: Ints, targets: Ints) -> Floats:  # noqa: D102
        return self.latency_s[self.link(sources, targets)]

    def levels(self) -> Iterator[Level]:  # noqa: D102
        return iter(())

    def names(self) -> list[str]:  # noqa: D102
        ends = zip(self.ends[0].tolist(), self.ends[1].tolist(), strict=True)
        return [f"{self._label(a)} to {self._label(b)}" for a, b in ends]

    def injection(self, first: range, second: range) -> float:
        """All links between the sides."""
        one, other = (self.ports[side.start : side.stop] for side in (first, second))
        return float(np.minimum.outer(one, other).ravel().sum())
