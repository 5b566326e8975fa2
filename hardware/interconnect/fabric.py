"""What every fabric can tell, and the smallest one: a chip's HBM.

A fabric joins nodes 0, 1, ... by directed links: ``bandwidth`` (B/s) and
``latency_s`` per link, ``loads`` and ``latencies`` of messages (vectors of
sources, targets and numbers of flows; a source is not its target), the links'
``names``, and what one side can send to the other (``injection``; sides are
neighbouring ranges of nodes).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hardware.array import Group

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Label = Callable[[int], str]


def tally(links: Ints, flows: Floats, size: int) -> Floats:
    """How many flows cross each of so many links."""
    return np.bincount(links, flows, minlength=size).astype(np.float64, copy=False)


@dataclass(frozen=True, slots=True, eq=False)
class Nodes:
    """What a topology joins: so many boards or chips, as a group that the bisection halves.

    ``ports`` (B/s) and ``latency_s`` are each node's, ``name`` is what one is
    called when its number is left out. ``half_bytes`` take a part of each latency. ``network``
    (B/s, s, B) is the port of each out of its node.
    """

    group: Group
    ports: Floats
    latency_s: Floats
    name: str
    network: tuple[float, float, float] = (0.0, 0.0, 0.0)
    half_bytes: Floats | float = 0.0

    def at(self, ports: Floats) -> Nodes:
        """The same with ports of another bandwidth, at which half a message's bytes go, too."""
        latency_s = self.latency_s + self.half_bytes * (1 / ports - 1 / self.ports)
        return replace(self, ports=ports, latency_s=latency_s)

    def label(self, node: int) -> str:
        """The name of one node, as "board3"."""
        return f"{self.name}{node}"


def at_share(
    share: float, bytes_per_s: float, latency_s: float, half_bytes: float
) -> tuple[float, float]:
    """Bandwidth and latency of a link at a share of its own, at which half a message's bytes go."""
    later_s = half_bytes * (1 / share - 1) / bytes_per_s if half_bytes else 0.0
    return share * bytes_per_s, latency_s + later_s


class Fabric(Protocol):
    """What a set of wires between nodes can tell.

    ``has_places`` says whether a node is told from another one by where it
    is: what others send then passes some nodes and not others.
    """

    bandwidth: Floats
    latency_s: Floats
    has_places: bool = False

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:
        """How many flows cross each link."""

    def latencies(self, sources: Ints, targets: Ints) -> Floats:  # noqa: ARG002
        """Seconds each message is on its way besides its bytes: its source's link's, as usual."""
        found: Floats = self.latency_s[sources]
        return found

    def ways(self) -> list[Ints]:
        """Where routes go up and down: of each step a link per node (-1: none); else nothing."""
        return []

    def names(self) -> list[str]:
        """A name per link."""

    def injection(self, first: range, second: range) -> float:
        """Bytes per second from the first range of nodes to the second."""


def cut(bandwidth: Floats, ends: tuple[Ints, Ints], first: range, second: range) -> float:
    """Bandwidth of all links from one range of nodes to another."""
    source, target = ends
    leaves = (source >= first.start) & (source < first.stop)
    enters = (target >= second.start) & (target < second.stop)
    return float(bandwidth[leaves & enters].sum())


class Memory(Fabric):
    """Nodes that hand messages over within themselves: written once and read once."""

    def __init__(self, bandwidth: Floats, label: Label) -> None:
        self.bandwidth = bandwidth
        self.latency_s = np.zeros(len(bandwidth))
        self._label = label

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:  # noqa: D102
        both = np.concatenate([sources, targets])
        return tally(both, np.tile(flows, 2), len(self.bandwidth))

    def ways(self) -> list[Ints]:  # noqa: D102
        return [np.arange(len(self.bandwidth))]

    def names(self) -> list[str]:  # noqa: D102
        return [f"hbm {self._label(i)}" for i in range(len(self.bandwidth))]

    def injection(self, first: range, second: range) -> float:  # noqa: D102
        raise NotImplementedError("a memory is shared by cores: see Wires.injection_bytes_per_s")
