"""A node's types at all levels at once: the values that one variable of a whole layout takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, combinations_with_replacement, groupby, pairwise, product

import numpy as np

from planners.partition import II, III, IV, USUAL, I, PartitionType, Shard
from simulator.engine.jobs import Ints
from workloads import Node

Types = tuple[PartitionType, ...]
"""A node's types at every level, outermost first."""

MOST = 3**5
"""States up to which a node has all; where they were more, its types change less often."""
FEW_CORES = 8
"""Up to which layouts may leave cores without some nodes: with more, that is not worth a look."""
RUNS, MANY_LEVELS = (3, 2), 7
"""Most runs of one type then, from the outermost level to the innermost: on up to so many levels,
and on more."""


@dataclass(frozen=True, slots=True, eq=False)
class States:
    """Types of a node at every level, a row a state, the outermost level first.

    ``masks`` has, by type, which levels are of that type, as ``Curves`` counts
    them (bit 0: the innermost); ``counts`` how many. ``complete`` says whether
    no legal state was left out.
    """

    types: Ints
    masks: Ints
    counts: Ints
    complete: bool
    numbers: dict[tuple[int, ...], int]

    def __len__(self) -> int:
        return len(self.types)

    def at(self, state: int) -> tuple[PartitionType, ...]:
        """The types of one state."""
        return tuple(PartitionType(kind) for kind in self.types[state].tolist())


@lru_cache(maxsize=256)
def states_of(
    legal: tuple[PartitionType, ...], levels: int, most_fours: int, runs: int | None = None
) -> States:
    """Every state of these types on so many levels, at most ``most_fours`` of them of type IV.

    Where they are more than MOST, those of few ``runs`` (the usual ones): I I II II II has two.
    """
    complete = len(legal) ** levels <= MOST
    rows = (
        product(legal, repeat=levels)
        if complete
        else _of_runs(legal, levels, runs or few_runs(levels))
    )
    return _of_rows(rows, levels, most_fours, complete=complete)


@lru_cache(maxsize=256)
def states_near(
    some: frozenset[Types], legal: tuple[PartitionType, ...], levels: int, most_fours: int
) -> States:
    """The same, and ``some`` more, each with any one stretch of levels of any other type besides.

    No more runs than states of fewer levels have.
    """
    found = {*states_of(legal, levels, most_fours).numbers, *some}
    for row in some:
        for first, last in combinations(range(levels + 1), 2):
            found |= {(*row[:first], *(kind,) * (last - first), *row[last:]) for kind in legal}
    few = (row for row in found if len(list(groupby(row))) <= RUNS[0])
    return _of_rows(sorted(few), levels, most_fours, complete=False)


def _of_rows(
    rows: Iterable[Sequence[int]], levels: int, most_fours: int, *, complete: bool
) -> States:
    kept = [row for row in rows if row.count(IV) <= most_fours]
    types = np.array(kept, dtype=np.int64).reshape(len(kept), levels)
    bits = 1 << np.arange(levels, dtype=np.int64)[::-1]
    each = [types == kind for kind in PartitionType]
    return States(
        types,
        np.array([(one * bits).sum(axis=1) for one in each]),
        np.array([one.sum(axis=1) for one in each]),
        complete,
        {tuple(row): number for number, row in enumerate(types.tolist())},
    )


def layouts_by_level(states: States, as_type: Sequence[PartitionType]) -> list[Ints]:
    """By layout (rows, columns, whole), the levels at which every state has it."""
    found = [np.zeros(len(states), dtype=np.int64) for _ in range(3)]
    for kind in USUAL:
        found[as_type[kind]] |= states.masks[kind]
    return found


def moves(
    one: States, held: Sequence[PartitionType], other: States, read: Sequence[PartitionType]
) -> tuple[Ints, Ints]:
    """The levels at which re-laying changes and gathers, by the holder's and the reader's state."""
    own = [mask[:, np.newaxis] for mask in layouts_by_level(one, held)]
    asked = layouts_by_level(other, read)
    changes = (own[I] & asked[II]) | (own[II] & asked[I])
    gathers = (own[I] | own[II]) & asked[III]
    return changes, gathers


def is_state(
    legal: Sequence[PartitionType], types: Sequence[PartitionType], runs: int | None = None
) -> bool:
    """Whether these types, outermost first, are one of a node's states (if they are legal)."""
    changes = sum(one is not other for one, other in pairwise(types))
    return len(legal) ** len(types) <= MOST or changes < (runs or few_runs(len(types)))


def few_runs(levels: int) -> int:
    """The most runs that a state of so many levels has, if it has not got all its types' states."""
    return RUNS[levels > MANY_LEVELS]


def _of_runs(
    legal: Sequence[PartitionType], levels: int, most: int
) -> Iterator[tuple[PartitionType, ...]]:
    """Every state of few runs of one type, in ascending order."""
    found = set[tuple[PartitionType, ...]]()
    for kinds in product(legal, repeat=most):
        for cuts in combinations_with_replacement(range(levels + 1), most - 1):
            lengths = np.diff([0, *cuts, levels]).tolist()
            runs = zip(kinds, lengths, strict=True)
            found.add(tuple(kind for kind, length in runs for _ in range(length)))
    yield from sorted(found)


def whole_of(node: Node, batch: int) -> Shard:
    """All of a node's samples, channels, groups and positions."""
    groups = node.groups
    return Shard(
        batch, node.in_channels / groups, node.out_channels / groups, groups, node.out_area
    )


def filled(node: Node, batch: int, types: Sequence[PartitionType]) -> bool:
    """Whether every core has a part of a node that is halved by these types."""
    counts = [types.count(kind) if not (node.join and kind is III) else 0 for kind in PartitionType]
    return all(n >= 1 << many for n, many in zip(whole_of(node, batch), counts, strict=True))
