"""Fabrics on which every message takes one hop: a bus, a switch, a link to everybody.

A bus is one medium that all share, a switch a port for every node, a full connection a link
from every node to every other.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hardware.interconnect.fabric import Floats, Ints, Label, Level, Nodes, tally
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
