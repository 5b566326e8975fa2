"""Who holds what: every device's samples and channels of every layer.

The bisection goes down to boards, or single cores. Each split cuts one dimension of each
node (its samples B, input channels Di, output channels Do, groups or positions): the first
half takes [0, a) of what the group holds, the second [a, 1). Whole shards round
the first half's count to the nearest integer, so that remainders go to the
first cores and cores may be left without work.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

import numpy as np

from hardware import Group, Wires
from planners import PlanError, Split
from planners.partition import III, SAME_WEIGHTS, WHOLE, Partition, PartitionType, Shard
from simulator.collectives.groups import StridedGroups
from simulator.sharding.blocks import Block, DeviceClass, Halving, Mask, Shards
from workloads import Graph, Node


@dataclass(frozen=True, eq=False)
class Mesh:
    """A mesh of cores, a group of the bisection, and its shard of every node.

    ``copies`` are the first cores of every copy of this part in the array, each
    a group by itself. A part that the plan treats alike all the way down, halving it
    by one list of ``types`` (of each node) per level, is a block: its cores
    differ by remainders at most, and the first core's shards are the largest.
    Any other part has two ``halves``, one object twice where they do the
    same, and the ``partitions`` between them, with the shares that the first
    half really got.
    """

    level: int
    group: Group
    copies: StridedGroups
    shards: Shards
    partitions: tuple[Partition, ...] = ()
    halves: tuple[Mesh, ...] = ()
    types: tuple[tuple[PartitionType, ...], ...] = ()
    block: Block | None = None
    """What each core of a block holds."""
    working: tuple[int, ...] = (0, 1)
    """The halves that do not sit out, by number."""

    @property
    def cores(self) -> int:
        """Number of cores of one copy."""
        return self.group.size

    @property
    def idle(self) -> bool:
        """Whether one of the halves sits out."""
        return len(self.working) == 1

    @property
    def working_halves(self) -> tuple[Mesh, ...]:
        """The halves that do not sit out."""
        return (self.halves[self.working[0]],) if self.idle else self.halves

    @cached_property
    def split_types(self) -> tuple[PartitionType, ...]:
        """The type of each node between its halves."""
        return tuple(partition.type for partition in self.partitions)

    @cached_property
    def all_types(self) -> frozenset[tuple[PartitionType, ...]]:
        """The types of each node at all of its splits, and at those of its halves."""
        if not self.halves:
            return frozenset(self.types)
        return frozenset({self.split_types}).union(*(half.all_types for half in self.distinct()))

    @cached_property
    def even(self) -> bool:
        """Whether each core has something of all nodes, and each half the same share of all."""
        if self.block is not None:
            return self.block.full
        one_share = len({partition.share for partition in self.partitions}) == 1
        return one_share and all(half.even for half in self.distinct())

    def innermost(self) -> Mesh:
        """The part of it outside of which everybody sits out."""
        part = self
        while part.idle:
            (part,) = part.working_halves
        return part

    def distinct(self) -> tuple[Mesh, ...]:
        """The halves, once where they are one object."""
        return tuple(dict.fromkeys(self.halves))

    def busy(self, nodes: Sequence[int]) -> bool:
        """Whether the group takes part in any of these nodes."""
        return any(not self.shards[node].empty for node in nodes)

    def mask(self, nodes: Sequence[int]) -> Mask:
        """Which of its cores take part in any of these nodes."""
        if self.block is None:
            return np.concatenate([half.mask(nodes) for half in self.halves])
        return self.block.mask(nodes)

    def count(self, nodes: Sequence[int]) -> int:
        """How many of its cores take part in any of these nodes."""
        if self.block is None:
            first, second = self.halves
            once = first.count(nodes)
            return once + (once if second is first else second.count(nodes))
        return self.block.count(nodes)

    def classes(self, *, folded: bool) -> list[DeviceClass]:
        """A block's cores that hold the same, numbers relative to its first core.

        Without ``folded`` every core is a class.
        """
        if self.block is None:
            return []
        if folded:
            return self.block.classes()
        shards = self.block.shards
        return [DeviceClass(shards[i], 1, core) for core, i in enumerate(self.block.which.tolist())]


class Counting(StrEnum):
    """What a shard counts: fractions of a node, or samples and channels of it, broken or whole."""

    FRACTIONS = "fractions"
    EXACT = "exact"
    WHOLE = "whole"

    def cut(self, count: float, share: float) -> tuple[float, float]:
        """What the two halves get of a count."""
        if self is Counting.WHOLE:
            first = int(count * share + 0.5)
            return first, count - first
        first_ = count * share
        return first_, count * (1.0 - share) if self is Counting.FRACTIONS else count - first_


@dataclass(frozen=True, slots=True)
class Division:
    """How an array is divided among the nodes of a graph.

    Where ``blocks`` are told from other parts, levels that treat all cores
    alike are one part. Where the plan does the same on both halves of a split,
    and its ``wires`` do not tell them apart, a half is followed once
    (``folded``).
    """

    graph: Graph
    counting: Counting
    blocks: bool
    folded: bool
    wires: Wires | None = None

    def divide(self, root: Split | None, group: Group, batch: int, first: int = 0) -> Mesh:
        """The tree of parts of a plan's ``root`` over a group, whose first leaf has a number.

        Raises PlanError when the plan is for a group of another shape.
        """
        return self._part(root, group, StridedGroups(first), self._everything(batch), 0)

    def _everything(self, batch: int) -> Shards:
        if self.counting is Counting.FRACTIONS:
            return (WHOLE,) * len(self.graph)
        number = int if self.counting is Counting.WHOLE else float
        return tuple(
            Shard(
                number(batch),
                number(node.in_channels / node.groups),
                number(node.out_channels / node.groups),
                number(node.groups),
                number(node.out_area),
            )
            for node in self.graph
        )

    def _part(
        self, split: Split | None, group: Group, copies: StridedGroups, shards: Shards, level: int
    ) -> Mesh:
        _fits(split, group, level)
        types = _block(split, group, level) if self.blocks else None
        if split is None or types is not None:
            below_types = types or ()
            block = self._halved(shards, below_types)
            return Mesh(level, group, copies, shards, types=below_types, block=block)
        sides = group.halves()
        cut = map(self._cut, self.graph, shards, split.partitions)
        first, second, partitions = zip(*cut, strict=True)
        below = (split.halves[0], split.halves[-1])
        behind = sides[0].size
        same = split.alike and sides[0] == sides[1] and first == second
        if self.folded and same and self._interchangeable(sides[0], copies.first):
            both = replace(copies, beside=(*copies.beside, behind))
            half = self._part(below[0], sides[0], both, first, level + 1)
            halves = (half, half)
        else:
            halves = (
                self._part(below[0], sides[0], copies, first, level + 1),
                self._part(below[1], sides[1], copies.at(StridedGroups(behind)), second, level + 1),
            )
        return Mesh(level, group, copies, shards, partitions, halves, working=split.working)

    def _interchangeable(self, half: Group, first: int) -> bool:
        """Whether the wires do not tell a half from the other one, which follows it."""
        wires = self.wires
        return wires is None or wires.interchangeable(first, first + half.size, half.size)

    def _cut(
        self, node: Node, shard: Shard, partition: Partition
    ) -> tuple[Shard, Shard, Partition]:
        """The halves' shards of one node, and the partition with the share that was cut."""
        type_, share = partition.type, partition.share
        if _replicates(node, type_):  # every half that takes part has all of it
            kept = [shard if part > 0 else shard._replace(outputs=0) for part in (share, 1 - share)]
            return kept[0], kept[1], partition
        count = shard[type_]
        parts = self.counting.cut(count, share)
        field_ = Shard._fields[type_]
        first, second = (shard._replace(**{field_: part}) for part in parts)
        if self.counting is Counting.FRACTIONS:
            return first, second, partition
        return first, second, Partition(type_, parts[0] / count if count else 0.0)

    def _halved(self, shards: Shards, types: Sequence[Sequence[PartitionType]]) -> Block:
        """What each core of a block holds: halved level by level, remainders first."""
        halving = Halving.of(shards)
        whole = self.counting is Counting.WHOLE
        for kinds in types:
            cut = [v for v, node in enumerate(self.graph) if not _replicates(node, kinds[v])]
            halving.halve(cut, [kinds[v] for v in cut], lambda n: (n + 1) // 2 if whole else n / 2)
        return halving.block()


def _replicates(node: Node, type_: PartitionType) -> bool:
    """Whether a join's halves both have the whole."""
    return node.join and type_ is III


def _block(
    split: Split | None, group: Group, level: int
) -> tuple[tuple[PartitionType, ...], ...] | None:
    """The types of every level below, if the plan treats all cores of a group alike.

    Raises PlanError when the plan is for a group of another shape.
    """
    types: list[tuple[PartitionType, ...]] = []
    while True:
        _fits(split, group, level)
        if split is None:
            return tuple(types)
        first, second = group.halves()
        even = all(partition.share == 0.5 for partition in split.partitions)
        if not split.alike or first != second or not even:
            return None
        types.append(split.types)
        split, group, level = split.halves[0], first, level + 1


def _fits(split: Split | None, group: Group, level: int) -> None:
    """Raise PlanError where a plan's split does not fit its group."""
    if (split is None) != (group.size == 1):
        raise PlanError(
            f"the plan is for another number of devices: its halves at level {level} are not "
            "those of this array; plan again for it (in Python for execution.planned(array))"
        )
    if split is None or len(split.halves) == 2:
        return
    first, second = group.halves()
    if first != second:
        raise PlanError(
            f"the plan treats unlike halves as alike (at level {level}): it needs two halves there"
        )


def parts(root: Mesh) -> Iterator[Mesh]:
    """Every distinct part, parents first."""
    yield root
    for half in root.distinct():
        yield from parts(half)


def working(root: Mesh) -> Iterator[Mesh]:
    """Every distinct part that does not sit out, parents first."""
    yield root
    for half in dict.fromkeys(root.working_halves):
        yield from working(half)


def exchanged_alike(found: Iterable[Mesh], u: int, v: int) -> bool:
    """Whether two layers' gradients are summed over the same groups of all parts.

    At a split that one cuts by its inputs and the other by its outputs neither is summed, and
    tensor-parallel layers share a bucket.
    """

    def alike(one: PartitionType, other: PartitionType) -> bool:
        return (one in SAME_WEIGHTS) is (other in SAME_WEIGHTS)

    return all(
        alike(part.partitions[u].type, part.partitions[v].type)
        if part.halves
        else part.block is not None
        and (part.block.busy((u,)) == part.block.busy((v,))).all()
        and all(alike(types[u], types[v]) for types in part.types)
        for part in found
    )
