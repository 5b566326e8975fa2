"""Planning top-down over the bisected array, one exact search per distinct split."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import fields
from operator import attrgetter

from hardware import Array, Group, Section, bisection_of
from planners.level import Level
from planners.medium import check_array
from planners.objective import Objective
from planners.partition import I, PartitionType, Shard, Sizes, legal, shrunk, sizes
from planners.split import Split, one_of
from planners.terms import Domains, links_of, terms_of
from workloads import Graph, Node


class Search:
    """One planning run: what stays the same at every split, and the splits solved so far.

    ``levels`` are the domains of each level from the top; the last one holds below too.
    What layers of one kind that hold as much have in common is found once.
    """

    def __init__(
        self,
        graph: Graph,
        levels: Sequence[Domains],
        batch: int,
        objective: Objective,
        array: Array,
        *,
        balance: bool = False,
    ) -> None:
        check_array(array)
        self.bisection = bisection_of(array)
        self.graph = graph
        self.batch = batch
        self.objective = objective
        self.balance = balance
        self._fused = array.group.arithmetic.fused
        self._links = links_of(graph)
        self._kinds = _numbered(map(_sized_by, graph))
        wanted = [[tuple(domain) for domain in domains] for domains in levels]
        self._levels = [list(zip(domains, _numbered(domains), strict=True)) for domains in wanted]
        self._sizes: dict[tuple[int, Shard], Sizes] = {}
        self._legal: dict[tuple[int, int, int, float], tuple[PartitionType, ...]] = {}
        self._solved: dict[tuple[Section, tuple[Shard, ...], int], Split] = {}

    def split(self, group: Group, shards: tuple[Shard, ...], depth: int = 0) -> Split | None:
        """The cheapest split of a group that earlier splits have left so much; None for one."""
        section = self.bisection.section(group, self.bisection.array.first)
        return self._split(section, shards, depth)

    def _split(self, section: Section, shards: tuple[Shard, ...], depth: int) -> Split | None:
        if not section.halves:
            return None
        level = min(depth, len(self._levels) - 1)
        key = (section, shards, level)
        if key not in self._solved:
            self._solved[key] = self._solve(section, shards, depth, level)
        return self._solved[key]

    def _solve(self, section: Section, shards: tuple[Shard, ...], depth: int, level: int) -> Split:
        group, halves = section.group, section.halves
        first, second = (half.group for half in halves)
        prices = (self.objective.prices(halves[0]), self.objective.prices(halves[1]))
        share = None if self.balance and first != second else first.size / group.size
        domains = self._domains(shards, level)
        table = self.objective.communication
        terms = terms_of(self._links, domains, table, balanced=share is None)
        problem = Level(
            self.graph, domains, terms, self._size(shards), prices, share, self.objective
        )
        cost, partitions, lower = problem.solve()
        kept = shrunk(shards, partitions)
        below = [self._split(*item, depth + 1) for item in zip(section.below, kept, strict=True)]
        same = one_of(*below) if first == second else None  # with shares of one half
        return Split(tuple(partitions), cost, tuple(below) if same is None else same, lower)

    def _size(self, shards: Sequence[Shard]) -> list[Sizes]:
        known, found = self._sizes, []
        for v, key in enumerate(zip(self._kinds, shards, strict=True)):
            if key not in known:
                known[key] = sizes(self.graph[v], self.batch, shards[v], fused=self._fused)
            found.append(known[key])
        return found

    def _domains(
        self, shards: Sequence[Shard], level: int
    ) -> tuple[tuple[PartitionType, ...], ...]:
        """The wanted types that are legal; where none is, the batch is split."""
        known, found = self._legal, []
        of = zip(self.graph, self._kinds, shards, self._levels[level], strict=True)
        for node, kind, shard, (wanted, number) in of:
            key = (level, kind, number, shard.groups)
            if key not in known:
                known[key] = tuple(one for one in legal(node, shard) if one in wanted) or (I,)
            found.append(known[key])
        return tuple(found)


def _numbered(values: Iterable[Hashable]) -> list[int]:
    """Each value's number; equal ones have one."""
    known: dict[Hashable, int] = {}
    return [known.setdefault(value, len(known)) for value in values]


_WHERE = ("name", "producers", "main", "tied")
"""What of a node says where it is; on all else its sizes and its legal types may depend."""
_sized_by = attrgetter(*(field.name for field in fields(Node) if field.name not in _WHERE))
