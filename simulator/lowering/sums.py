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


@dataclass(frozen=True, slots=True)
class Sums:
    """Partial sums of one tensor of ``nodes`` that splits of type ``type_`` leave behind.

    ``nodes`` are split by the same types everywhere (a bucket, or one node);
    ``size`` gives the bytes of their tensors for shards of all nodes. Where
    the node ``carrier`` is of the same type too, its sums carry these.
    """

    nodes: tuple[int, ...]
    type_: PartitionType
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
        return self._leaves_sums(lambda node: part.partitions[node].type)

    def _joins(self, types: Types) -> bool:
        return self._leaves_sums(types.__getitem__)

    def _leaves_sums(self, type_of: Callable[[int], PartitionType]) -> bool:
        carried = self.carrier is not None and type_of(self.carrier) is self.type_
        return type_of(self.nodes[0]) is self.type_ and not carried

    def _pieces(self, part: Part) -> tuple[float, float]:
        """Bytes of the sums that each half's cores keep when they are scattered over both."""
        first, second = (np.count_nonzero(half.mask(self.nodes)) for half in part.halves)
        size = self.size(part.shards)
        return size * first / (first + second), size * second / (first + second)

    def _collective(self, part: Part, name: str) -> None:
        block = part.block
        if block is None or not part.busy(self.nodes):
            return
        busy, together = block.busy(self.nodes), part.together(self._joins)
        members = block.groups(together, busy)
        if members.size > 1:
            size = np.array(self.size(block.largest))
            padded = None if busy.all() else block.groups(together, np.ones_like(busy))
            self.emit(Request(part, name, (members,), (size,), padded))

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


def _only_half(part: Part, nodes: Sequence[int]) -> Part | None:
    """The one half that takes part in ``nodes``, if just one does."""
    busy = [half for half in part.halves if half.busy(nodes)]
    return busy[0] if len(busy) == 1 else None


def _each(part: Part, work: Callable[[Part], None]) -> None:
    for half in part.distinct():
        work(half)
