"""Which collectives complete partial sums under the deployed model.

Inside a block, which the plan treats alike all the way down, the levels that
matter form groups of cores that run one collective, as large as that of the
core with the largest shard. Where halves differ, each half works by itself
and a swap joins them: sums are scattered in each half, swapped, and gathered
again (docs/deployed.md).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from planners.partition import (
    PartitionType,
)
from simulator.collectives.lattice import Rows
from simulator.lowering.blocks import Shards
from simulator.lowering.placement import Part
from simulator.lowering.requests import Emit, Request, Types


def _never(types: Types) -> bool:
    """No sums are scattered."""
    del types
    return False


@dataclass(frozen=True, slots=True)
class Sums:
    """Partial sums of one tensor of ``nodes`` that splits of some ``types`` leave behind.

    ``nodes`` are split by such types at the same splits (a bucket, or one node);
    ``size`` gives the bytes of their tensors for shards of all nodes. Where
    the node ``carrier`` is of such a type too, its sums carry these. At splits
    where nobody needs more of the sums than a part of the positions (``scattered``, by
    the types of all nodes) they are scattered, and not gathered again.
    """

    nodes: tuple[int, ...]
    types: tuple[PartitionType, ...]
    size: Callable[[Shards], float]
    emit: Emit
    carrier: int | None = None
    scattered: Callable[[Types], bool] = _never

    def complete(self, part: Part) -> None:
        """Every core of ``part`` ends with what is needed of the sums of its shard."""
        if self._all_scattered(part):
            self.scatter(part)
        else:
            self._all_reduce(part)

    def _all_scattered(self, part: Part) -> bool:
        """Whether all splits that leave sums scatter them."""
        if not part.halves:
            return all(self.scattered(types) for types in part.types if self._joins(types))
        here = self.scattered(_types_of(part)) or not self._joined(part)
        return here and all(map(self._all_scattered, part.distinct()))

    def _all_reduce(self, part: Part) -> None:
        if not part.halves:
            self._of_block(part)
        elif only := _only_half(part, self.nodes):
            self._all_reduce(only)
        elif self._of_all(part):
            self._at_once(part, "all-reduce")
        elif not self._joined(part):
            _each(part, self._all_reduce)
        else:
            _each(part, self.scatter)
            size = self.size(part.shards)
            self._cross(part, size, size)
            _each(part, self.gather)

    def scatter(self, part: Part) -> None:
        """Every core of ``part`` ends with the sums of its piece of its shard."""
        if not part.halves:
            self._collective(part, "reduce-scatter")
        elif only := _only_half(part, self.nodes):
            self.scatter(only)
        elif self._of_all(part):
            self._at_once(part, "reduce-scatter")
        else:
            _each(part, self.scatter)
            if self._joined(part):
                self._cross(part, *self._pieces(part))

    def gather(self, part: Part) -> None:
        """Every core of ``part`` ends with its shard, of which each had its piece."""
        if not part.halves:
            self._collective(part, "all-gather")
        elif only := _only_half(part, self.nodes):
            self.gather(only)
        elif self._of_all(part):
            self._at_once(part, "all-gather")
        else:
            if self._joined(part):
                self._cross(part, *reversed(self._pieces(part)))
            _each(part, self.gather)

    def _of_all(self, part: Part) -> bool:
        """Whether all cores of a part have sums of the same, and are alike but for their number.

        Twelve are six and six, these three and three, of which one half is two cores and the
        other one: no block, but one collective all the same.
        """
        if part.idle or len({device for device, _ in part.group.kinds}) > 1:
            return False
        if not part.halves:
            return all(map(self._joins, part.types))
        return self._joined(part) and all(map(self._of_all, part.distinct()))

    def _at_once(self, part: Part, name: str) -> None:
        """One collective of all cores of a part that have something of the nodes."""
        cores = np.flatnonzero(part.mask(self.nodes))
        size = np.array(self.size(part.shards))
        self.emit(Request(part, name, (Rows(cores[np.newaxis]),), (size,)))

    def _joined(self, part: Part) -> bool:
        return self._joins(_types_of(part))

    def _joins(self, types: Types) -> bool:
        carried = self.carrier is not None and types[self.carrier] in self.types
        return types[self.nodes[0]] in self.types and not carried

    def _pieces(self, part: Part) -> tuple[float, float]:
        """Bytes of the sums that each half's cores keep when they are scattered over both."""
        first, second = (np.count_nonzero(half.mask(self.nodes)) for half in part.halves)
        size = self.size(part.shards)
        return size * first / (first + second), size * second / (first + second)

    def _of_block(self, part: Part) -> None:
        """Scattered over some levels, then what is left of them all-reduced over the others."""

        def apart(types: Types) -> bool:
            return self._joins(types) and self.scattered(types)

        left = 1.0 / self._collective(part, "reduce-scatter", apart)
        self._collective(part, "all-reduce", lambda t: self._joins(t) and not apart(t), left)

    def _collective(
        self,
        part: Part,
        name: str,
        joined: Callable[[Types], bool] | None = None,
        share: float = 1.0,
    ) -> int:
        """One of a ``share`` of the sums over the levels that are joined; by how many cores."""
        block = part.block
        if block is None or not part.busy(self.nodes):
            return 1
        busy, together = block.busy(self.nodes), part.together(joined or self._joins)
        members = block.groups(together, busy)
        if members.size > 1:
            size = np.array(self.size(block.largest) * share)
            padded = None if busy.all() else block.groups(together, np.ones_like(busy))
            self.emit(Request(part, name, (members,), (size,), padded))
        return max(members.size, 1)

    def _cross(self, part: Part, to_first: float, to_second: float) -> None:
        """The halves' cores receive that much together, each as much as the others."""
        cores = [np.flatnonzero(half.mask(self.nodes)) for half in part.halves]
        amounts = [
            np.full(len(members), size / len(members))
            for members, size in zip(cores, (to_first, to_second), strict=True)
        ]
        cores[1] += part.halves[0].cores
        halves = tuple(Rows(members[np.newaxis]) for members in cores)
        self.emit(Request(part, "swap", halves, tuple(amounts)))


def _types_of(part: Part) -> Types:
    """The type of each node at a part's split."""
    return [partition.type for partition in part.partitions]


def _only_half(part: Part, nodes: Sequence[int]) -> Part | None:
    """The one half that takes part in ``nodes``, if just one does."""
    busy = [half for half in part.halves if half.busy(nodes)]
    return busy[0] if len(busy) == 1 else None


def _each(part: Part, work: Callable[[Part], None]) -> None:
    for half in part.distinct():
        work(half)
