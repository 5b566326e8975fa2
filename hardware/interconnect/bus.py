"""A bus: one medium that all nodes share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hardware.interconnect.fabric import Floats, Ints, Level, Nodes
from hardware.topology import Topology


class Bus:
    """One medium that every message holds alone or shares, whichever way it goes."""

    has_places = False

    def __init__(self, nodes: int, bytes_per_s: float, latency_s: float, name: str) -> None:
        self._nodes = nodes
        self._name = name
        self.bandwidth = np.array([bytes_per_s])
        self.latency_s = np.array([latency_s])

    @classmethod
    def of(cls, topology: Topology, nodes: Nodes) -> Bus:  # noqa: ARG003
        """The bus of some nodes, as fast as the slowest of them."""
        slowest, latency_s = float(nodes.ports.min()), float(nodes.latency_s.max())
        return cls(nodes.group.size, slowest, latency_s, f"{nodes.name} bus")

    def route(self, source: int, target: int) -> list[int]:  # noqa: ARG002, D102
        return [0]

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:  # noqa: ARG002, D102
        return np.array([flows.sum()])

    def latencies(self, sources: Ints, targets: Ints) -> Floats:  # noqa: ARG002, D102
        return np.full(len(sources), self.latency_s[0])

    def levels(self) -> Iterator[Level]:  # noqa: D102
        yield Level(np.zeros(self._nodes, dtype=np.int64))

    def names(self) -> list[str]:  # noqa: D102
        return [self._name]

    def injection(self, first: range, second: range) -> float:
        """A fair share when all alike splits exchange at once, in both directions."""
        splits = max(self._nodes // (len(first) + len(second)), 1)
        return float(self.bandwidth[0]) / splits / 2
