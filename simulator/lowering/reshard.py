"""Which collectives complete partial sums and re-lay tensors under the deployed model.

Inside a block, which the plan treats alike all the way down, the levels that
matter form groups of cores that run one collective, as large as that of the
core with the largest shard. Where halves differ, each half works by itself
and a swap joins them: sums are scattered in each half, swapped, and gathered
again (docs/deployed.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planners.partition import (
    AS_MADE,
    AS_READ,
    AS_TURNED,
    AS_WEIGHT,
    III,
    PartitionType,
)
from simulator.lowering.placement import Cores, Mask, Part, Shards
from workloads import Graph

Bytes = NDArray[np.float64]
"""Bytes of each core of a group; one number where they are the same for all."""

Types = Sequence[PartitionType]
"""The type of every node at one level."""


class Request(NamedTuple):
    """One collective over a part's groups, or a swap between its halves.

    ``groups`` holds core numbers relative to the part's first core, a group a
    row, and ``bytes`` the tensor's size per core as ``simulator.collectives.choice``
    wants it. ``padded`` are the same groups with cores that hold nothing, who
    may stand between the others. Of a swap, ``groups`` are the two halves'
    cores and ``bytes`` what each of them receives.
    """

    part: Part
    collective: str
    groups: tuple[Cores, ...]
    bytes: tuple[Bytes, ...]
    padded: Cores | None = None


Emit = Callable[[Request], None]
"""Takes requests in the order in which the cores of their parts meet them."""


@dataclass(frozen=True, slots=True)
class Sums:
    """Partial sums of one tensor of ``nodes`` that splits of type ``kind`` leave behind.

    ``nodes`` are split by the same types everywhere (a bucket, or one node);
    ``size`` gives the bytes of their tensors for shards of all nodes. Where
    the node ``carrier`` is of the same type too, its sums carry these.
    """

    nodes: tuple[int, ...]
    kind: PartitionType
    size: Callable[[Shards], float]
    emit: Emit
    carrier: int | None = None

    def all_reduce(self, part: Part) -> None:
        """Every core of ``part`` ends with the whole sums of its shard."""
        if not part.halves:
            self._collective(part, "all-reduce")
        elif only := _only_half(part, self.nodes):
            self.all_reduce(only)
        elif not self._joined(part):
            _each(part, self.all_reduce)
        else:
            _each(part, self._scatter)
            size = self.size(part.shards)
            self._cross(part, size, size)
            _each(part, self._gather)

    def _scatter(self, part: Part) -> None:
        if not part.halves:
            self._collective(part, "reduce-scatter")
        elif only := _only_half(part, self.nodes):
            self._scatter(only)
        else:
            _each(part, self._scatter)
            if self._joined(part):
                self._cross(part, *self._pieces(part))

    def _gather(self, part: Part) -> None:
        if not part.halves:
            self._collective(part, "all-gather")
        elif only := _only_half(part, self.nodes):
            self._gather(only)
        else:
            if self._joined(part):
                self._cross(part, *reversed(self._pieces(part)))
            _each(part, self._gather)

    def _joined(self, part: Part) -> bool:
        return self._joins([partition.type for partition in part.partitions])

    def _joins(self, types: Types) -> bool:
        carried = self.carrier is not None and types[self.carrier] is self.kind
        return types[self.nodes[0]] is self.kind and not carried

    def _pieces(self, part: Part) -> tuple[float, float]:
        """Bytes of the sums that each half's cores keep when they are scattered over both."""
        first, second = (np.count_nonzero(half.mask(self.nodes)) for half in part.halves)
        size = self.size(part.shards)
        return size * first / (first + second), size * second / (first + second)

    def _collective(self, part: Part, name: str) -> None:
        if not part.busy(self.nodes):
            return
        mask = part.mask(self.nodes)
        members = groups(part, mask, self._joins)
        if members.shape[1] > 1:
            size = np.array(self.size(part.largest))
            padded = None if mask.all() else groups(part, np.ones_like(mask), self._joins)
            self.emit(Request(part, name, (members,), (size,), padded))

    def _cross(self, part: Part, to_first: float, to_second: float) -> None:
        """The halves' cores receive that much together, each as much as the others."""
        cores = [np.flatnonzero(half.mask(self.nodes)) for half in part.halves]
        amounts = [
            np.full(len(members), size / len(members))
            for members, size in zip(cores, (to_first, to_second), strict=True)
        ]
        groups = (cores[0], cores[1] + part.halves[0].cores)
        self.emit(Request(part, "swap", groups, tuple(amounts)))


class Layout(NamedTuple):
    """How splits of a part lay out a tensor: which node's partitions, and by what type.

    ``as_type`` gives the layout of a partition's type: I rows, II columns, III
    whole. A holder's whole is replicated, a reader's is all that it needs.
    """

    node: int
    as_type: tuple[PartitionType, ...]

    def at(self, part: Part) -> tuple[PartitionType, float]:
        """The layout at one split and the first half's share."""
        partition = part.partitions[self.node]
        return self.as_type[partition.type], partition.share

    def of(self, types: Types) -> PartitionType:
        """The layout at one level of a block."""
        return self.as_type[types[self.node]]


class TiedLayout(NamedTuple):
    """How a node lays out a weight that ``other`` uses too and cuts in another dimension.

    The whole wherever it does not: nothing has to move there.
    """

    node: int
    as_type: tuple[PartitionType, ...]
    other: Layout

    def at(self, part: Part) -> tuple[PartitionType, float]:
        """The layout at one split and the first half's share."""
        partition = part.partitions[self.node]
        return self._apart(partition.type, self.other.at(part)[0]), partition.share

    def of(self, types: Types) -> PartitionType:
        """The layout at one level of a block."""
        return self._apart(types[self.node], self.other.of(types))

    def _apart(self, kind: PartitionType, other: PartitionType) -> PartitionType:
        own = self.as_type[kind]
        return III if own is other or other is III else own


def tied_layouts(graph: Graph, user: int) -> tuple[tuple[TiedLayout, Layout], ...]:
    """Held and read: of a gradient on the way to the weight's owner, of the weight on its way back.

    ``user`` is a node with tied weights.
    """
    owner = graph[user].tied or 0
    turned = "embedding" in {graph[user].kind} ^ {graph[owner].kind}
    tables = {user: AS_TURNED if turned else AS_WEIGHT, owner: AS_WEIGHT}
    reads = {node: Layout(node, table) for node, table in tables.items()}
    return tuple(
        (TiedLayout(one, tables[one], reads[other]), reads[other])
        for one, other in ((user, owner), (owner, user))
    )


def forward_layouts(graph: Graph, producer: int, consumer: int) -> tuple[Layout, Layout]:
    """How features are held behind ``producer`` and read by ``consumer``."""
    as_type = AS_READ if graph[producer].join else AS_MADE
    return Layout(producer, as_type), Layout(consumer, AS_READ)


def backward_layouts(graph: Graph, producer: int, consumer: int) -> tuple[Layout, Layout]:
    """How errors are held before ``consumer`` and read by ``producer``."""
    return tuple(reversed(forward_layouts(graph, producer, consumer)))  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Relay:
    """Moving one tensor from the layout it is ``held`` in to the one it is ``read`` in."""

    held: Layout | TiedLayout
    read: Layout
    emit: Emit

    @property
    def nodes(self) -> tuple[int, int]:
        """The two nodes whose splits matter."""
        return self.held.node, self.read.node

    def move(self, part: Part, old: float, new: float = 0.0) -> None:
        """Bring every core of ``part`` what it reads of a tensor.

        The part reads ``old`` bytes that it holds in their first layout, and
        ``new`` that came from outside and are spread over its cores.
        """
        if not part.busy(self.nodes) or not (old or new):
            return
        if not part.halves:
            self._collectives(part, old, new)
            return
        first, second = part.halves
        moved = [self._of_half(part, i, old, new) for i in (0, 1)]
        if moved[0][1] or moved[1][1]:
            cores = [np.flatnonzero(half.mask(self.nodes)) for half in part.halves]
            cores[1] += first.cores
            amounts = (self._spread(first, moved[0][1]), self._spread(second, moved[1][1]))
            self.emit(Request(part, "swap", tuple(cores), amounts))
        self.move(first, moved[0][0], moved[0][2])
        if second is not first:
            self.move(second, moved[1][0], moved[1][2])

    def _of_half(self, part: Part, i: int, old: float, new: float) -> tuple[float, float, float]:
        """(held in the first layout, received across, spread over the half's cores)."""
        reads = self._reads(part, i)
        keeps = self._keeps(part, i)
        if not reads:
            return 0.0, 0.0, 0.0
        received = old * (reads - keeps)
        if self.read.at(part)[0] is III:
            received += new * (1 - self._readers(part, i))
        return old * keeps, received, old * (reads - keeps) + new * reads

    def _spread(self, part: Part, received: float) -> Bytes:
        """What each busy core takes of what its part receives: of what it reads, its share."""
        if not part.busy(self.nodes):
            return np.zeros(0)
        if not part.halves:
            reads = part.mask((self.read.node,))[part.mask(self.nodes)]
            return np.where(reads, received / max(1, int(reads.sum())), 0.0)
        whole = self.read.at(part)[0] is III
        share = self._readers if whole else self._reads
        return np.concatenate(
            [self._spread(half, received * share(part, i)) for i, half in enumerate(part.halves)]
        )

    def _readers(self, part: Part, i: int) -> float:
        """One half's share of the cores that read."""
        cores = [np.count_nonzero(half.mask((self.read.node,))) for half in part.halves]
        return cores[i] / sum(cores) if sum(cores) else 0.0

    def _reads(self, part: Part, i: int) -> float:
        """Fraction of what the part reads that one half does."""
        if part.halves[i].shards[self.read.node].empty:
            return 0.0
        layout, share = self.read.at(part)
        return 1.0 if layout is III else (share, 1 - share)[i]

    def _keeps(self, part: Part, i: int) -> float:
        """Fraction of what the part reads that one half holds and reads."""
        if part.halves[i].shards[self.held.node].empty:
            return 0.0
        reads = self._reads(part, i)
        layout, share = self.held.at(part)
        if layout is III:
            return reads
        holds = (share, 1 - share)[i]
        return min(holds, reads) if layout is self.read.at(part)[0] else holds * reads

    def _collectives(self, part: Part, old: float, new: float) -> None:
        """All cores do the same: an all-to-all where a dimension changes, then all-gathers."""
        mask = part.mask(self.nodes)
        if any((part.mask((node,)) != mask).any() for node in self.nodes):
            mask = np.ones_like(mask)  # those who hold, those who read, and who stands between
        exchanged = groups(part, mask, self._changes)
        gathered = groups(part, mask, self._gathers)
        needed = groups(part, mask, self._needs_all)
        reads = self._largest(part)
        if old and exchanged.shape[1] > 1:
            size = np.array(old * reads / gathered.shape[1])
            self.emit(Request(part, "all-to-all", (exchanged,), (size,)))
        if old and gathered.shape[1] > 1:
            self.emit(Request(part, "all-gather", (gathered,), (np.array(old * reads),)))
        if new and needed.shape[1] > 1:
            self.emit(Request(part, "all-gather", (needed,), (np.array(new * reads),)))

    def _largest(self, part: Part) -> float:
        """Fraction of what the part reads that its first core does, the largest of all."""
        whole, own = part.shards[self.read.node], part.largest[self.read.node]
        cut = {types[self.read.node] for types in part.types if not self._needs_all(types)}
        return prod(own[kind] / whole[kind] for kind in cut)

    def _needs_all(self, types: Types) -> bool:
        return self.read.of(types) is III

    def _changes(self, types: Types) -> bool:
        held, read = self.held.of(types), self.read.of(types)
        return held is not read and III not in (held, read)

    def _gathers(self, types: Types) -> bool:
        return self.held.of(types) is not III and self._needs_all(types)


def groups(block: Part, mask: Mask, joined: Callable[[Types], bool]) -> Cores:
    """The cores of ``mask`` that differ only in levels of a block that are ``joined``.

    A row for each group, numbers relative to the block's first core.
    """
    together = [joined(types) for types in block.types]
    axes = sorted(range(len(together)), key=lambda axis: together[axis])
    cores = np.arange(len(mask)).reshape((2,) * len(together)).transpose(axes)
    members = cores.reshape(-1, 1 << sum(together))
    taking = mask[members]
    return members[taking.any(axis=1)][:, taking.any(axis=0)]


def _only_half(part: Part, nodes: Sequence[int]) -> Part | None:
    """The one half that takes part in ``nodes``, if just one does."""
    busy = [half for half in part.halves if half.busy(nodes)]
    return busy[0] if len(busy) == 1 else None


def _each(part: Part, work: Callable[[Part], None]) -> None:
    for half in part.distinct():
        work(half)
