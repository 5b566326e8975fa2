"""A switch: a port for every node."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hardware.interconnect.fabric import Floats, Ints, Label, Level, Nodes, tally
from hardware.topology import Topology


class Switch:
    """A port for every node, up and down; the latency of a message is on its way up."""

    has_places = False

    def __init__(self, ports: Floats, latency_s: Floats, label: Label) -> None:
        self._nodes = len(ports)
        self.bandwidth = np.concatenate([ports, ports])
        self.latency_s = np.concatenate([latency_s, np.zeros(len(ports))])
        self._label = label

    @classmethod
    def of(cls, topology: Topology, nodes: Nodes) -> Switch:  # noqa: ARG003
        """The switch of some nodes."""
        return cls(nodes.ports, nodes.latency_s, nodes.label)

    def route(self, source: int, target: int) -> list[int]:  # noqa: D102
        return [source, self._nodes + target]

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:  # noqa: D102
        links = np.concatenate([sources, self._nodes + targets])
        return tally(links, np.tile(flows, 2), 2 * self._nodes)

    def latencies(self, sources: Ints, targets: Ints) -> Floats:  # noqa: ARG002, D102
        return self.latency_s[sources]

    def levels(self) -> Iterator[Level]:  # noqa: D102
        ports = np.arange(self._nodes)
        yield Level(ports, self._nodes + ports)

    def names(self) -> list[str]:  # noqa: D102
        return [f"{self._label(i)} {way}" for way in ("up", "down") for i in range(self._nodes)]

    def injection(self, first: range, second: range) -> float:  # noqa: ARG002
        """The ports of the side together."""
        return float(self.bandwidth[first.start : first.stop].sum())
