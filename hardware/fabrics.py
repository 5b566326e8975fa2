"""Fabrics without coordinates: switch, bus, tree, full connection, and a chip's HBM.

Every fabric joins nodes 0, 1, ... by directed links: ``bandwidth`` (B/s) and
``latency_s`` per link, the ``route`` of one message (links in order, a link
twice where it is crossed twice), ``loads`` and ``latencies`` of many
(vectors of sources, targets and numbers of flows; a source is not its
target), the links' ``names``, and what one side can send to the other
(``injection``; sides are neighbouring ranges of nodes).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Label = Callable[[int], str]


def tally(links: Ints, flows: Floats, size: int) -> Floats:
    """How many flows cross each of so many links."""
    return np.bincount(links, flows, minlength=size).astype(np.float64, copy=False)


class Fabric(Protocol):
    """What a set of wires between nodes can tell."""

    bandwidth: Floats
    latency_s: Floats

    def route(self, source: int, target: int) -> list[int]:
        """Links that a message crosses."""

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:
        """How many flows cross each link."""

    def latencies(self, sources: Ints, targets: Ints) -> Floats:
        """Seconds each message is on its way besides its bytes."""

    def names(self) -> list[str]:
        """A name per link."""

    def injection(self, first: range, second: range) -> float:
        """Bytes per second from the first range of nodes to the second."""


class Memory:
    """Nodes that hand messages over within themselves: written once and read once."""

    def __init__(self, bandwidth: Floats, label: Label) -> None:
        self.bandwidth = bandwidth
        self.latency_s = np.zeros(len(bandwidth))
        self._label = label

    def route(self, source: int, target: int) -> list[int]:  # noqa: D102
        return [source, target]

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:  # noqa: D102
        both = np.concatenate([sources, targets])
        return tally(both, np.tile(flows, 2), len(self.bandwidth))

    def latencies(self, sources: Ints, targets: Ints) -> Floats:  # noqa: ARG002, D102
        return np.zeros(len(sources))

    def names(self) -> list[str]:  # noqa: D102
        return [f"hbm {self._label(i)}" for i in range(len(self.bandwidth))]

    def injection(self, first: range, second: range) -> float:  # noqa: D102
        raise NotImplementedError("a memory is shared by cores: see Wires.injection_bytes_per_s")


class Bus:
    """One medium that every message holds alone or shares, whichever way it goes."""

    def __init__(self, nodes: int, bytes_per_s: float, latency_s: float, name: str) -> None:
        self._nodes = nodes
        self._name = name
        self.bandwidth = np.array([bytes_per_s])
        self.latency_s = np.array([latency_s])

    def route(self, source: int, target: int) -> list[int]:  # noqa: ARG002, D102
        return [0]

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:  # noqa: ARG002, D102
        return np.array([flows.sum()])

    def latencies(self, sources: Ints, targets: Ints) -> Floats:  # noqa: ARG002, D102
        return np.full(len(sources), self.latency_s[0])

    def names(self) -> list[str]:  # noqa: D102
        return [self._name]

    def injection(self, first: range, second: range) -> float:
        """A fair share when all alike splits exchange at once, in both directions."""
        splits = max(self._nodes // (len(first) + len(second)), 1)
        return float(self.bandwidth[0]) / splits / 2


class Switch:
    """A port for every node, up and down; the latency of a message is on its way up."""

    def __init__(self, ports: Floats, latency_s: Floats, label: Label) -> None:
        self._nodes = len(ports)
        self.bandwidth = np.concatenate([ports, ports])
        self.latency_s = np.concatenate([latency_s, np.zeros(len(ports))])
        self._label = label

    def route(self, source: int, target: int) -> list[int]:  # noqa: D102
        return [source, self._nodes + target]

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:  # noqa: D102
        links = np.concatenate([sources, self._nodes + targets])
        return tally(links, np.tile(flows, 2), 2 * self._nodes)

    def latencies(self, sources: Ints, targets: Ints) -> Floats:  # noqa: ARG002, D102
        return self.latency_s[sources]

    def names(self) -> list[str]:  # noqa: D102
        return [f"{self._label(i)} {way}" for way in ("up", "down") for i in range(self._nodes)]

    def injection(self, first: range, second: range) -> float:  # noqa: ARG002
        """The ports of the side together."""
        return float(self.bandwidth[first.start : first.stop].sum())


class FullyConnected:
    """A link from every node to every other, as fast as the slower of the two."""

    def __init__(self, ports: Floats, latency_s: Floats, label: Label) -> None:
        self._nodes = nodes = len(ports)
        self._label = label
        source = np.repeat(np.arange(nodes), max(nodes - 1, 0))
        target = np.arange(len(source)) % max(nodes - 1, 1)
        target += target >= source
        self._ends = source, target
        self.bandwidth = np.minimum(ports[source], ports[target])
        self.latency_s = latency_s[source]

    def _link(self, source: Ints, target: Ints) -> Ints:
        return source * (self._nodes - 1) + target - (target > source)

    def route(self, source: int, target: int) -> list[int]:  # noqa: D102
        return [source * (self._nodes - 1) + target - (target > source)]

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:  # noqa: D102
        links = self._link(sources, targets)
        return tally(links, flows, len(self.bandwidth))

    def latencies(self, sources: Ints, targets: Ints) -> Floats:  # noqa: D102
        return self.latency_s[self._link(sources, targets)]

    def names(self) -> list[str]:  # noqa: D102
        ends = zip(self._ends[0].tolist(), self._ends[1].tolist(), strict=True)
        return [f"{self._label(a)} to {self._label(b)}" for a, b in ends]

    def injection(self, first: range, second: range) -> float:
        """All links between the sides."""
        return cut(self.bandwidth, self._ends, first, second)


class Tree:
    """The bisection as wires: every subtree has a link up and a link down.

    ``ranges`` are the subtrees below the root, outermost first, leaves last in
    each branch. A subtree of s nodes has its nodes' mean bandwidth times s to
    the power log2(factor): for powers of two, the factor once per level. The
    latency of a message is on its own node's way up.
    """

    def __init__(
        self,
        ports: Floats,
        latency_s: Floats,
        factor: float,
        ranges: Sequence[Sequence[range]],
        label: Label,
    ) -> None:
        self._ranges = [r for level in ranges for r in level]
        self._label = label
        self.ports = ports
        self._exponent = float(np.log2(factor))
        count = len(self._ranges)
        one_way = np.array([self._width(r) for r in self._ranges])
        self.bandwidth = np.concatenate([one_way, one_way])
        self.latency_s = np.zeros(2 * count)
        self._subtree = np.full((len(ranges), len(ports)), -1, dtype=np.int64)
        links = iter(range(count))
        for level, subtrees in zip(self._subtree, ranges, strict=True):
            for subtree, link in zip(subtrees, links, strict=False):
                level[subtree.start : subtree.stop] = link
                if len(subtree) == 1:
                    self.latency_s[link] = latency_s[subtree.start]
        self._message_s = latency_s

    def _width(self, subtree: range) -> float:
        mean = float(self.ports[subtree.start : subtree.stop].mean())
        return mean * float(len(subtree) ** self._exponent)

    def route(self, source: int, target: int) -> list[int]:  # noqa: D102
        apart = self._subtree[:, [source, target]]
        apart = apart[apart[:, 0] != apart[:, 1]]
        up = [int(link) for link in apart[::-1, 0] if link >= 0]
        return up + [int(link) + len(self._ranges) for link in apart[:, 1] if link >= 0]

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:  # noqa: D102
        count = len(self._ranges)
        total = np.zeros(2 * count)
        for level in self._subtree:
            up, down = level[sources], level[targets]
            for ends, shift in ((up, 0), (down, count)):
                used = (up != down) & (ends >= 0)
                total += tally(ends[used] + shift, flows[used], 2 * count)
        return total

    def latencies(self, sources: Ints, targets: Ints) -> Floats:  # noqa: ARG002, D102
        return self._message_s[sources]

    def names(self) -> list[str]:  # noqa: D102
        return [f"{self._place(r)} {way}" for way in ("up", "down") for r in self._ranges]

    def _place(self, subtree: range) -> str:
        first = self._label(subtree.start)
        return first if len(subtree) == 1 else f"{first}-{subtree.stop - 1}"

    def injection(self, first: range, second: range) -> float:  # noqa: ARG002
        """The link of the side."""
        return self._width(first)


def cut(bandwidth: Floats, ends: tuple[Ints, Ints], first: range, second: range) -> float:
    """Bandwidth of all links from one range of nodes to another."""
    source, target = ends
    leaves = (source >= first.start) & (source < first.stop)
    enters = (target >= second.start) & (target < second.stop)
    return float(bandwidth[leaves & enters].sum())
