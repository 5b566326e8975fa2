"""The bisection as wires: a tree of links."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardware.array import Group
from hardware.interconnect.fabric import Floats, Ints, Label, Nodes, tally
from hardware.topology import Topology


class Tree:
    """The bisection as wires: every subtree has a link up and a link down.

    ``ranges`` are the subtrees below the root, outermost first, leaves last in
    each branch. A subtree of s nodes has its nodes' mean bandwidth times s to
    the power log2(factor): for powers of two, the factor once per level. The
    latency of a message is on its own node's way up.
    """

    has_places = False

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
        # The link of every node's subtree, level by level; of 4 nodes, with 6 links one way:
        #   0 0 1 1    from 0 to 3 differ both levels: up by 2, then 0, and down by 1, then 5
        #   2 3 4 5    (-1 where a branch has ended above)
        self._subtree = np.full((len(ranges), len(ports)), -1, dtype=np.int64)
        links = iter(range(count))
        for level, subtrees in zip(self._subtree, ranges, strict=True):
            for subtree, link in zip(subtrees, links, strict=False):
                level[subtree.start : subtree.stop] = link
                if len(subtree) == 1:
                    self.latency_s[link] = latency_s[subtree.start]
        self._message_s = latency_s

    @classmethod
    def of(cls, topology: Topology, nodes: Nodes) -> Tree:
        """The tree of the bisection of some nodes."""
        ranges = _subtrees(nodes.group)
        return cls(nodes.ports, nodes.latency_s, topology.factor, ranges, nodes.label)

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


def _subtrees(group: Group) -> list[list[range]]:
    """Ranges of nodes below the root of the bisection, level by level."""
    levels: list[list[range]] = []
    current = [(group, 0)]
    while current := [
        half
        for parent, first in current
        if parent.size > 1
        for half in _placed(parent.halves(), first)
    ]:
        levels.append([range(first, first + part.size) for part, first in current])
    return levels


def _placed(halves: tuple[Group, Group], first: int) -> list[tuple[Group, int]]:
    return [(halves[0], first), (halves[1], first + halves[0].size)]
