"""What the cores of a block hold: few different shards, and which of them each core has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planners.partition import PartitionType, Shard

Mask = NDArray[np.bool_]
Cores = NDArray[np.int64]
"""Numbers of cores: boards in the array's order, in a board its chips, in a chip its cores."""
Shards = tuple[Shard, ...]
"""What a core or group holds of every node."""
Counts = NDArray[Any]
"""Nodes by the fields of a shard by whatever differs."""
NONE: Cores = np.zeros((0, 0), dtype=np.int64)
"""No groups of cores."""
Cut = Callable[[Counts], Counts]
"""What the first half of each core gets of the counts that a split cuts."""


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """``which`` of the different ``shards`` every core holds; ``counts`` are the same by column."""

    shards: tuple[Shards, ...]
    counts: Counts
    which: Cores
    _masks: dict[bytes, Mask] = field(default_factory=dict)
    _groups: dict[tuple[tuple[bool, ...], bytes], Cores] = field(default_factory=dict)

    @property
    def largest(self) -> Shards:
        """What the first core holds: nobody else more."""
        return self.shards[self.which[0]]

    def mask(self, nodes: Sequence[int]) -> Mask:
        """Which cores take part in any of these nodes."""
        busy: Mask = np.all(self.counts[list(nodes)] > 0, axis=1).any(axis=0)
        key = busy.tobytes()
        if key not in self._masks:
            self._masks[key] = busy[self.which]
            self._masks[key].setflags(write=False)
        return self._masks[key]

    def groups(self, together: tuple[bool, ...], mask: Mask) -> Cores:
        """Cores of the mask that differ only in levels that are ``together``, a row a group.

        Of eight cores, with the first and the last level: 0 1 4 5 and 2 3 6 7.
        """
        key = together, mask.tobytes()
        if key not in self._groups:
            axes = sorted(range(len(together)), key=lambda axis: together[axis])
            cores = np.arange(len(mask)).reshape((2,) * len(together)).transpose(axes)
            members = cores.reshape(-1, 1 << sum(together))
            taking = mask[members]
            self._groups[key] = members[taking.any(axis=1)][:, taking.any(axis=0)]
        return self._groups[key]

    def classes(self, *, folded: bool) -> list[tuple[Shards, Cores]]:
        """Cores that hold the same, in the order of their first ones: shards and numbers.

        Without ``folded`` every core is a class.
        """
        if not folded:
            return [(self.shards[i], np.array([core])) for core, i in enumerate(self.which)]
        cores = np.argsort(self.which, kind="stable")
        ends = np.cumsum(np.bincount(self.which, minlength=len(self.shards)))
        found = zip(self.shards, np.split(cores, ends[:-1]), strict=True)
        return sorted(found, key=lambda item: int(item[1][0]))


@dataclass(slots=True)
class Halving:
    """A block in the making, from one group with its shards down to single cores."""

    counts: Counts
    which: Cores

    @classmethod
    def of(cls, shards: Shards) -> Halving:
        """The group as a whole."""
        return cls(np.array(shards)[:, :, np.newaxis], np.zeros(1, dtype=np.int64))

    def halve(self, nodes: Sequence[int], fields: Sequence[PartitionType], cut: Cut) -> None:
        """Halve a field of each of some nodes' shards; the other nodes' are in both halves.

        Work for the shards that differ, not for the cores: 2,048 samples on
        1,024 cores are halved ten times, each time one column of counts.
        """
        counts = np.repeat(self.counts, 2, axis=2)
        before = self.counts[nodes, fields]
        counts[nodes, fields, 0::2] = first = cut(before)
        counts[nodes, fields, 1::2] = before - first
        below = np.stack([2 * self.which, 2 * self.which + 1], axis=1).ravel()
        columns, number = _different(counts.reshape(-1, counts.shape[2]).T)
        self.counts = counts[:, :, columns]
        self.which = number.ravel()[below]

    def block(self) -> Block:
        """What came of it."""
        fields = len(Shard._fields)
        columns = self.counts.reshape(-1, self.counts.shape[2]).T.tolist()
        shards = tuple(
            tuple(Shard(*numbers[i : i + fields]) for i in range(0, len(numbers), fields))
            for numbers in columns
        )
        return Block(shards, self.counts, self.which)


def _different(rows: Counts) -> tuple[Cores, Cores]:
    """The first of each sort of rows, and which sort every row is; by their bytes."""
    rows = np.ascontiguousarray(rows)
    whole = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).ravel()
    _, first, number = np.unique(whole, return_index=True, return_inverse=True)
    return first, number
