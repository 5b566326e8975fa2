"""Who holds what under the deployed model: every core's samples and channels of every layer.

The bisection goes down to single cores. Each split cuts one dimension of each
node (its samples B, input channels Di, output channels Do or groups): the first
half takes [0, a) of what the group holds, the second [a, 1). Whole shards round
the first half's count to the nearest integer, so that remainders go to the
first cores and cores may be left without work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardware import Group
from planners import PlanError, Split
from planners.partition import III, Partition, PartitionType
from workloads import Graph, Node

Mask = NDArray[np.bool_]
Cores = NDArray[np.int64]
"""Numbers of cores: boards in the array's order, in a board its chips, in a chip its cores."""


class Shard(NamedTuple):
    """How many samples, channels and groups of one node a group of cores holds.

    Channels are those of one group of a grouped convolution (or head of a
    matmul); most nodes have one group.
    """

    rows: float
    inputs: float
    outputs: float
    groups: float = 1

    @property
    def empty(self) -> bool:
        """Whether the group takes no part in the node."""
        return min(self) <= 0


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A group of cores of the bisection, and its shard of every node.

    Halves that do the same are one object twice. ``firsts`` are the numbers
    of the first core of every copy of this part in the array; the shares of
    ``partitions`` are those that the first half really got. ``alike`` says of
    which nodes the plan treats all cores below alike: equal groups, split
    equally by the same types all the way down, so that shards differ by
    remainders at most and the first core's are the largest. A leaf has no halves.
    """

    level: int
    group: Group
    firsts: Cores
    shards: tuple[Shard, ...]
    alike: tuple[bool, ...]
    partitions: tuple[Partition, ...] = ()
    halves: tuple[Part, ...] = ()
    _masks: dict[int, Mask] = field(default_factory=dict, repr=False)

    @property
    def cores(self) -> int:
        """Number of cores of one copy."""
        return self.group.size

    def distinct(self) -> tuple[Part, ...]:
        """The halves, once where they are one object."""
        return tuple(dict.fromkeys(self.halves))

    def busy(self, nodes: Sequence[int]) -> bool:
        """Whether the group takes part in any of these nodes."""
        return any(not self.shards[node].empty for node in nodes)

    def mask(self, nodes: Sequence[int]) -> Mask:
        """Which of its cores take part in any of these nodes."""
        found: Mask = np.logical_or.reduce([self._mask(node) for node in nodes])
        return found

    def _mask(self, node: int) -> Mask:
        if node not in self._masks:
            if self.halves and self.busy((node,)):
                found = np.concatenate([half._mask(node) for half in self.halves])
            else:
                found = np.full(self.cores, self.busy((node,)))
            self._masks[node] = found
        return self._masks[node]


def divide(
    graph: Graph, root: Split | None, group: Group, batch: int, *, whole: bool, folded: bool
) -> Part:
    """The tree of parts of a plan's ``root`` over a group of cores.

    ``whole`` shards hold whole samples and channels; otherwise exact
    fractions. Without ``folded`` no two halves are one object. Raises
    PlanError when the plan is for a group of another shape.
    """
    number = int if whole else float
    shards = tuple(
        Shard(
            number(batch),
            number(node.in_channels / node.groups),
            number(node.out_channels / node.groups),
            number(node.groups),
        )
        for node in graph
    )
    firsts = np.zeros(1, dtype=np.int64)
    return _Division(graph, whole, folded).part(root, group, firsts, shards, 0)


@dataclass(frozen=True, slots=True)
class _Division:
    graph: Graph
    whole: bool
    folded: bool

    def part(
        self,
        split: Split | None,
        group: Group,
        firsts: Cores,
        shards: tuple[Shard, ...],
        level: int,
    ) -> Part:
        if (split is None) != (group.size == 1):
            raise PlanError(f"the plan does not fit an array of this shape (at level {level})")
        if split is None:
            return Part(level, group, firsts, shards, (True,) * len(shards))
        sides = group.halves()
        pairs = [
            self._cut(*item) for item in zip(self.graph, shards, split.partitions, strict=True)
        ]
        held = (tuple(first for first, _, _ in pairs), tuple(second for _, second, _ in pairs))
        partitions = tuple(
            Partition(p.type, share)
            for p, (_, _, share) in zip(split.partitions, pairs, strict=True)
        )
        if len(split.halves) == 1 and sides[0] != sides[1]:
            raise PlanError(f"the plan treats unlike halves as alike (at level {level})")
        below = (split.halves[0], split.halves[-1])
        second = firsts + sides[0].size
        if self.folded and below[0] is below[1] and sides[0] == sides[1] and held[0] == held[1]:
            both = np.concatenate([firsts, second])
            half = self.part(below[0], sides[0], both, held[0], level + 1)
            halves = (half, half)
        else:
            halves = (
                self.part(below[0], sides[0], firsts, held[0], level + 1),
                self.part(below[1], sides[1], second, held[1], level + 1),
            )
        twins = below[0] is below[1] and sides[0] == sides[1]
        alike = tuple(
            twins and p.share == 0.5 and first and second
            for p, first, second in zip(
                split.partitions, halves[0].alike, halves[1].alike, strict=True
            )
        )
        return Part(level, group, firsts, shards, alike, partitions, halves)

    def _cut(self, node: Node, shard: Shard, partition: Partition) -> tuple[Shard, Shard, float]:
        """The halves' shards of one node, and the first's share of what was cut."""
        kind, share = partition.type, partition.share
        if node.join and kind is III:  # replicated: every half that takes part has all of it
            kept = [shard if part > 0 else shard._replace(outputs=0) for part in (share, 1 - share)]
            return kept[0], kept[1], share
        count = shard[kind]
        first = int(count * share + 0.5) if self.whole else count * share
        second = count - first
        return (
            _with(shard, kind, first),
            _with(shard, kind, second),
            first / count if count else 0.0,
        )


def _with(shard: Shard, kind: PartitionType, count: float) -> Shard:
    return shard._replace(**{Shard._fields[kind]: count})
