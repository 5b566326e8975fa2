"""One bisection of a group, what each half does, and how that is written as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b
from numbers import Real
from typing import Any

import numpy as np

from hardware.reader import shown
from planners.errors import PlanError
from planners.partition import Partition, PartitionType


@dataclass(frozen=True)
class Split:
    """One bisection: a partition per node, and what each half does.

    ``halves`` has one entry when both halves follow the same sub-plan, else
    two; an entry is None where the half is a single accelerator. ``cost`` is
    this split's objective value (elements, or seconds). ``lower_bound`` is
    None where that is the least there is, else what no choice can undercut. With
    ``idle`` one half, whose share of every node is 0, sits out: no exchange waits
    for it, or brings it anything. (A planner that balances shares may end at 0
    for all nodes too. In the papers' model its exchanges then cost what they cost.)
    """

    partitions: tuple[Partition, ...]
    cost: float
    halves: tuple[Split | None, ...]
    lower_bound: float | None = None
    idle: bool = False

    @cached_property
    def digest(self) -> bytes:
        """A short text that is equal for splits that do the same, whatever they cost."""
        found = blake2b(digest_size=20)
        found.update(bytes(self.types))
        found.update(np.array([partition.share for partition in self.partitions]).tobytes())
        found.update(b"idle" if self.idle else b"")
        for half in self.halves:
            found.update(b"/" + (half.digest if half else b""))
        return found.digest()

    @property
    def alike(self) -> bool:
        """Whether both halves do the same."""
        first, last = self.halves[0], self.halves[-1]
        return first is last or bool(first and last and first.digest == last.digest)

    @property
    def working(self) -> tuple[int, ...]:
        """The halves that do not sit out, by number."""
        return (int(self.partitions[0].share == 0.0),) if self.idle else (0, 1)

    @property
    def types(self) -> tuple[PartitionType, ...]:
        """Each node's type."""
        return tuple(partition.type for partition in self.partitions)

    @property
    def gap(self) -> float | None:
        """How far the cost may lie above the least, as a fraction of the bound; None if exact."""
        if self.lower_bound is None:
            return None
        above = self.cost - self.lower_bound
        return above / self.lower_bound if self.lower_bound > 0 else math.inf if above else 0.0


def one_of(first: Split | None, second: Split | None) -> tuple[Split | None] | None:
    """Both halves' sub-plan where they follow the same, as the one entry of a split's halves.

    Costs may differ where the halves' wires do: it has those of the dearer one.
    """
    if first is second or first is None or second is None:
        return (first,) if first is second else None
    if first.partitions != second.partitions or len(first.halves) != len(second.halves):
        return None
    below = [one_of(*pair) for pair in zip(first.halves, second.halves, strict=True)]
    if None in below:
        return None
    dearer = max(first, second, key=lambda split: split.cost)
    return (replace(dearer, halves=tuple(split for found in below if found for split in found)),)


def check_split(split: Split, nodes: Sequence[str], whose: str) -> None:
    """Raise PlanError unless a split has a partition with a share within 0...1 for each node."""
    if not isinstance(split, Split):
        raise PlanError(f"{whose}: {shown(split)}: must be a Split, or None")
    if len(split.partitions) != len(nodes):
        raise PlanError(f"{whose}: {len(split.partitions)} partitions for {len(nodes)} layers")
    for name, partition in zip(nodes, split.partitions, strict=True):
        if type(partition) is not Partition or type(partition.type) is not PartitionType:
            types = ", ".join(PartitionType.__members__)
            raise PlanError(
                f"{whose}: layer {name!r} has {shown(partition)}; it must be a Partition with a "
                f"PartitionType ({types})"
            )
        if not isinstance(partition.share, float | Real) or not 0.0 <= partition.share <= 1.0:
            raise PlanError(
                f"{whose}: layer {name!r} has share {partition.share}; shares lie within 0...1"
            )
    if split.idle and {p.share for p in split.partitions} not in ({0.0}, {1.0}):
        raise PlanError(f"{whose}: a half sits out, and does not have a share of 0 of all layers")
    costs = (split.cost, split.lower_bound or 0.0)
    if len(split.halves) not in (1, 2) or not all(map(_is_finite, costs)):
        raise PlanError(f"{whose}: malformed split")


def _is_finite(cost: object) -> bool:
    return isinstance(cost, float | Real) and math.isfinite(cost)


def splits_below(root: Split | None) -> Iterator[Split]:
    """A tree's distinct splits, parents before children."""
    stack = [root]
    while stack:
        if split := stack.pop():
            yield split
            stack.extend(reversed(split.halves))


def split_to_json(split: Split | None) -> dict[str, Any] | None:
    """A split and all below it as plain values; None for None."""
    if split is None:
        return None
    bound = {} if split.lower_bound is None else {"lower_bound": split.lower_bound}
    return {
        "types": [str(partition.type) for partition in split.partitions],
        "shares": [partition.share for partition in split.partitions],
        "cost": split.cost,
        **bound,
        **({"idle": True} if split.idle else {}),
        "halves": [split_to_json(half) for half in split.halves],
    }
