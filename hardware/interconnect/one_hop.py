"""Fabrics on which every message takes one hop: a bus, a switch, a link to everybody.

A bus is one medium that all share, a switch a port for every node, a full connection a link
from every node to every other.
"""

from __future__ import annotations

import numpy as np

from hardware.interconnect.fabric import Fabric, Floats, Ints, Label, tally


class Bus(Fabric):
    """One medium that every message holds alone or shares, whichever way it goes."""

    def __init__(self, nodes: int, bytes_per_s: float, latency_s: float, name: str) -> None:
        self._nodes = nodes
        self._name = name
        self.bandwidth = np.array([bytes_per_s])
        self.latency_s = np.array([latency_s])

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:  # noqa: ARG002, D102
        return np.array([flows.sum()])

    def latencies(self, sources: Ints, targets: Ints) -> Floats:  # noqa: ARG002, D102
        return np.full(len(sources), self.latency_s[0])

    def ways(self) -> list[Ints]:  # noqa: D102
        return [np.zeros(self._nodes, dtype=np.int64)]

    def names(self) -> list[str]:  # noqa: D102
        return [self._name]

    def injection(self, first: range, second: range) -> float:
        """A fair share when all alike splits exchange at once, in both directions."""
        splits = max(self._nodes // (len(first) + len(second)), 1)
        return float(self.bandwidth[0]) / splits / 2


class Ports(Fabric):
    """Switches alike, each of ``members`` ports, up and down; latency is on the way up.

    Where a switch is oversubscribed (``over`` 1), its own links are one more, which every
    message through it crosses: as fast as all its ports together, divided by that.
    """

    def __init__(
        self, ports: Floats, latency_s: Floats, label: Label, members: int, *, over: float = 1.0
    ) -> None:
        self.ports, self._ports, self._members, self._over = ports, len(ports), members, over
        self._label = label
        of = ports.reshape(-1, members)[: None if over > 1 else 0]
        alike = (of == of[:, :1]).all(axis=1)
        inside = np.where(alike, members * of[:, 0], of.sum(axis=1)) / over
        many = len(inside)
        self.bandwidth = np.concatenate([ports, ports, inside])
        self.latency_s = np.concatenate([latency_s, np.zeros(len(ports) + many)])

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:  # noqa: D102
        links = [sources, self._ports + targets]
        if self._over > 1:
            links.append(2 * self._ports + sources // self._members)
        return tally(np.concatenate(links), np.tile(flows, len(links)), len(self.bandwidth))

    def ways(self) -> list[Ints]:  # noqa: D102
        ports = np.arange(self._ports)
        found = [ports, self._ports + ports]
        return [*found, 2 * self._ports + ports // self._members] if self._over > 1 else found

    def names(self) -> list[str]:  # noqa: D102
        ports = [f"{self._label(i)} {way}" for way in ("up", "down") for i in range(self._ports)]
        inside, name = len(self.bandwidth) - 2 * self._ports, self._label(0).rstrip("0")
        return ports + [f"{name}s' switch {i}" for i in range(inside)]

    def injection(self, first: range, second: range) -> float:
        """The side's ports together, and its share of what the switch carries both ways."""
        ports = float(self.bandwidth[first.start : first.stop].sum())
        if self._over <= 1:
            return ports
        inside = float(self.bandwidth[2 * self._ports + first.start // self._members])
        return min(ports, inside * len(first) / (len(first) + len(second)))


class Switch(Ports):
    """A port for every node of all."""

    def __init__(self, ports: Floats, latency_s: Floats, label: Label) -> None:
        super().__init__(ports, latency_s, label, len(ports))


class FullyConnected(Fabric):
    """A link from every node to every other, as fast as the slower of the two.

    Or so many ``nodes`` after the other: of four nodes in twos, 0-1, 1-0, 2-3 and 3-2.
    """

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

    def link(self, source: Ints, target: Ints) -> Ints:
        """A node's links to all others in a row: of 3 nodes 0-1 0-2, 1-0 1-2, 2-0 2-1."""
        return source * (self._nodes - 1) + target % self._nodes - (target > source)

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:  # noqa: D102
        links = self.link(sources, targets)
        return tally(links, flows, len(self.bandwidth))

    def latencies(self, sources: Ints, targets: Ints) -> Floats:  # noqa: D102
        return self.latency_s[self.link(sources, targets)]

    def names(self) -> list[str]:  # noqa: D102
        ends = zip(self.ends[0].tolist(), self.ends[1].tolist(), strict=True)
        return [f"{self._label(a)} to {self._label(b)}" for a, b in ends]

    def injection(self, first: range, second: range) -> float:
        """All links between the sides."""
        one, other = (self.ports[side.start : side.stop] for side in (first, second))
        return float(np.minimum.outer(one, other).ravel().sum())
