"""The bisection as wires: a tree of links."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from hardware.array import Group
from hardware.interconnect.fabric import Fabric, Floats, Ints, Label, Nodes, tally
from hardware.topology import Topology

NONE = np.zeros(0, dtype=np.int64)


class Subtrees(NamedTuple):
    """The subtrees of one level: the first node of each, and how many nodes it has."""

    first: Ints
    size: Ints

    def beside(self, other: Subtrees, behind: int) -> Subtrees:
        """These and others, which begin so many nodes behind."""
        first = np.concatenate([self.first, other.first + behind])
        return Subtrees(first, np.concatenate([self.size, other.size]))


class Tree(Fabric):
    """The bisection as wires: every subtree has a link up and a link down.

    ``levels`` are the subtrees below the root, outermost first, leaves last in
    each branch. A subtree of s nodes has its nodes' mean bandwidth times s to
    the power log2(factor): for powers of two, the factor once per level. The
    latency of a message is on its own node's way up.
    """

    def __init__(
        self,
        ports: Floats,
        latency_s: Floats,
        factor: float,
        levels: Sequence[Subtrees],
        label: Label,
    ) -> None:
        self._first = np.concatenate([NONE, *(level.first for level in levels)])
        self._size = np.concatenate([NONE, *(level.size for level in levels)])
        self._counts = [len(level.first) for level in levels]
        self._label = label
        self.ports = ports
        self._exponent = float(np.log2(factor))
        count = len(self._first)
        ranges = zip(self._first.tolist(), self._size.tolist(), strict=True)
        one_way = np.array([self._width(range(first, first + size)) for first, size in ranges])
        self.bandwidth = np.concatenate([one_way, one_way])
        self.latency_s = np.zeros(2 * count)
        # The link of every node's subtree, level by level; of 4 nodes, with 6 links one way:
        #   0 0 1 1    from 0 to 3 differ both levels: up by 2, then 0, and down by 1, then 5
        #   2 3 4 5    (-1 where a branch has ended above)
        self._subtree = np.full((len(levels), len(ports)), -1, dtype=np.int64)
        link = 0
        for on_level, (first, size) in zip(self._subtree, levels, strict=True):
            links = np.arange(link, link + len(first))
            behind = np.repeat(first - np.cumsum(size) + size, size)
            on_level[behind + np.arange(len(behind))] = np.repeat(links, size)
            self.latency_s[links[size == 1]] = latency_s[first[size == 1]]
            link += len(first)
        self._message_s = latency_s

    @classmethod
    def of(cls, topology: Topology, nodes: Nodes) -> Tree:
        """The tree of the bisection of some nodes."""
        levels = _subtrees(nodes.group, {})
        return cls(nodes.ports, nodes.latency_s, topology.factor, levels, nodes.label)

    def _width(self, subtree: range) -> float:
        mean = float(self.ports[subtree.start : subtree.stop].mean())
        return mean * float(len(subtree) ** self._exponent)

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:  # noqa: D102
        ways = np.zeros((2, len(self._first)))
        first = 0
        for level, count in zip(self._subtree, self._counts, strict=True):
            ends = level[sources], level[targets]
            apart = ends[0] != ends[1]
            for way, links in zip(ways, ends, strict=True):
                used = apart & (links >= 0)
                way[first : first + count] = tally(links[used] - first, flows[used], count)
            first += count
        return ways.ravel()

    def latencies(self, sources: Ints, targets: Ints) -> Floats:  # noqa: ARG002, D102
        return self._message_s[sources]

    def ways(self) -> list[Ints]:  # noqa: D102
        downs = (np.where(up < 0, -1, up + len(self._first)) for up in self._subtree)
        return [*self._subtree, *downs]

    def names(self) -> list[str]:  # noqa: D102
        subtrees = list(zip(self._first.tolist(), self._size.tolist(), strict=True))
        return [f"{self._place(*one)} {way}" for way in ("up", "down") for one in subtrees]

    def _place(self, first: int, size: int) -> str:
        name = self._label(first)
        return name if size == 1 else f"{name}-{first + size - 1}"

    def injection(self, first: range, second: range) -> float:  # noqa: ARG002
        """The link of the side."""
        return self._width(first)


def _subtrees(group: Group, found: dict[Group, list[Subtrees]]) -> list[Subtrees]:
    """The subtrees below a group, level by level, outermost first.

    Alike halves have theirs alike: each different group is bisected once.
    """
    if group.size == 1:
        return []
    if group not in found:
        first, second = group.halves()
        ends = Subtrees(np.array([0, first.size]), np.array([first.size, second.size]))
        below = zip_longest(
            _subtrees(first, found), _subtrees(second, found), fillvalue=Subtrees(NONE, NONE)
        )
        found[group] = [ends, *(one.beside(other, first.size) for one, other in below)]
    return found[group]
