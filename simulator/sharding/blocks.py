"""What the cores of a block hold: few different shards, and which of them each core has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from planners.partition import PartitionType, Shard
from simulator.collectives.groups import Members, Rows, StridedGroups

Mask = NDArray[np.bool_]
Cores = NDArray[np.int64]
"""Numbers of cores: boards in the array's order, in a board its chips, in a chip its cores."""
Shards = tuple[Shard, ...]
"""What a core or group holds of every node."""
Counts = NDArray[Any]
"""Nodes by the fields of a shard by whatever differs."""
Cut = Callable[[Counts], Counts]
"""What the first half of each core gets of the counts that a split cuts."""
Children = NDArray[np.int64]
"""For each sort of group, of which sorts its two halves are."""


class DeviceClass(NamedTuple):
    """Cores that hold the same: what, how many they are, and the number of the first."""

    shards: Shards
    cores: int
    first: int


@dataclass(frozen=True, eq=False)
class Block:
    """The different ``shards`` of a block's cores, and who has which; ``counts`` by column.

    ``levels`` says how the block is halved down to cores: of which sorts the
    halves of each sort of group are, outermost first; the cores' own sorts are
    the shards. Three samples on four cores: the whole has 3, its halves 2 and
    1; of these the first has two cores of one sample, the second one of each:

        levels   [[0, 1]]   [[0, 0], [0, 1]]        shards   one sample, none
    """

    shards: tuple[Shards, ...]
    counts: Counts
    levels: tuple[Children, ...] = ()

    @property
    def cores(self) -> int:
        """How many there are."""
        return 1 << len(self.levels)

    @cached_property
    def which(self) -> Cores:
        """The number of the shards of every core."""
        found = np.zeros(1, dtype=np.int64)
        for children in self.levels:
            found = children[found].ravel()
        return found

    @cached_property
    def largest(self) -> Shards:
        """What the first core holds: nobody else more."""
        sort = 0
        for children in self.levels:
            sort = int(children[sort, 0])
        return self.shards[sort]

    def busy(self, nodes: Sequence[int]) -> Mask:
        """Which of the shards have something of any of these nodes."""
        found: Mask = np.logical_or.reduce(self._having[list(nodes)])
        return found

    @cached_property
    def full(self) -> bool:
        """Whether every core has something of every node."""
        return bool(self._having.all())

    @cached_property
    def _having(self) -> Mask:
        """Which of the shards have something of each node."""
        found: Mask = np.all(self.counts > 0, axis=1)
        return found

    def mask(self, nodes: Sequence[int]) -> Mask:
        """Which cores take part in any of these nodes."""
        found: Mask = self.busy(nodes)[self.which]
        return found

    def count(self, nodes: Sequence[int]) -> int:
        """How many cores take part in any of these nodes."""
        return self.cores if self.full else int(np.count_nonzero(self.mask(nodes)))

    def classes(self) -> list[DeviceClass]:
        """Cores that hold the same, in the order of their first ones."""
        many, first = np.ones(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        half = self.cores
        for children in self.levels:
            half //= 2
            ends, sorts = children.ravel(), int(children.max()) + 1
            behind = np.full(sorts, self.cores)
            np.minimum.at(behind, ends, (first[:, np.newaxis] + (0, half)).ravel())
            many = np.bincount(ends, np.repeat(many, 2), sorts).astype(np.int64)
            first = behind
        found = map(DeviceClass, self.shards, many.tolist(), first.tolist())
        return sorted(found, key=lambda alike: alike.first)

    def groups(self, together: tuple[bool, ...], busy: Mask) -> Members:
        """Cores that differ only in levels that are ``together``, those with ``busy`` shards.

        Of eight cores, with the first and the last level: 0 1 4 5 and 2 3 6 7.
        Where only some of a group are busy, the places of those who are idle
        in all groups are left out, and groups without any.
        """
        halvings = self._halvings(busy)
        if halvings is None:
            return self._rows(together, busy[self.which])
        return _strided(together, halvings)

    def _halvings(self, busy: Mask) -> tuple[bool, ...] | None:
        """Of every level, whether both halves of busy groups are busy, alike; or only the first.

        None where busy cores are in no such order (or all idle).
        """
        idle: tuple[bool, ...] = ()
        below: list[tuple[bool, ...] | None] = [(True,) if one else idle for one in busy.tolist()]
        for children in reversed(self.levels):
            here: list[tuple[bool, ...] | None] = []
            for first, second in children.tolist():
                one, other = below[first], below[second]
                if one is None or other is None or (one != other and other != idle):
                    here.append(None)
                else:
                    here.append((one == other, *one) if one else idle)
            below = here
        return below[0][:-1] if below[0] else None

    def _rows(self, together: tuple[bool, ...], mask: Mask) -> Rows:
        axes = sorted(range(len(together)), key=lambda axis: together[axis])
        cores = np.arange(len(mask)).reshape((2,) * len(together)).transpose(axes)
        members = cores.reshape(-1, 1 << sum(together))
        taking = mask[members]
        return Rows(members[taking.any(axis=1)][:, taking.any(axis=0)])


def _strided(together: tuple[bool, ...], halvings: tuple[bool, ...]) -> StridedGroups:
    """Groups by levels, where some have their first halves only."""
    strides = [1 << i for i in reversed(range(len(together)))]
    both = [level for level in zip(strides, together, halvings, strict=True) if level[2]][::-1]
    return StridedGroups(
        0,
        tuple(stride for stride, joined, _ in both if joined),
        tuple(stride for stride, joined, _ in both if not joined),
    )


@dataclass(slots=True)
class Halving:
    """A block in the making, from one group with its shards down to single cores."""

    counts: Counts
    levels: list[Children] = field(default_factory=list)

    @classmethod
    def of(cls, shards: Shards) -> Halving:
        """The group as a whole."""
        return cls(np.array(shards)[:, :, np.newaxis])

    def halve(self, nodes: Sequence[int], fields: Sequence[PartitionType], cut: Cut) -> None:
        """Halve a field of each of some nodes' shards; the other nodes' are in both halves.

        Work for the shards that differ, not for the cores: 2,048 samples on
        1,024 cores are halved ten times, each time one column of counts.
        """
        counts = np.repeat(self.counts, 2, axis=2)
        before = self.counts[nodes, fields]
        counts[nodes, fields, 0::2] = first = cut(before)
        counts[nodes, fields, 1::2] = before - first
        columns, number = _different(counts.reshape(-1, counts.shape[2]).T)
        self.counts = counts[:, :, columns]
        self.levels.append(number.reshape(-1, 2))

    def block(self) -> Block:
        """What came of it."""
        fields = len(Shard._fields)
        columns = self.counts.reshape(-1, self.counts.shape[2]).T.tolist()
        shards = tuple(
            tuple(Shard(*numbers[i : i + fields]) for i in range(0, len(numbers), fields))
            for numbers in columns
        )
        return Block(shards, self.counts, tuple(self.levels))


def _different(rows: Counts) -> tuple[Cores, Cores]:
    """The first of each sort of rows, and which sort every row is; by their bytes."""
    rows = np.ascontiguousarray(rows)
    whole = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, number = np.unique(whole, return_index=True, return_inverse=True)
    return first, number
