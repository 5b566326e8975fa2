"""Planning top-down over the bisected array, one exact search per distinct split."""

from __future__ import annotations

from collections.abc import Sequence

from hardware import Array, Group, Section, bisection_of
from planners.level import Level
from planners.medium import check_array
from planners.objective import Objective
from planners.partition import IV, I, PartitionType, Shard, legal
from planners.sizing import Floats, kept, shares_of, sizing, types_of
from planners.split import Split, one_of
from planners.terms import Domains, links_of, terms_of
from workloads import Graph


class Search:
    """One planning run: what stays the same at every split, and the splits solved so far.

    ``levels`` are the domains of each level from the top; the last one holds below too.
    ``shards`` are arrays, a row for each node (``planners.sizing``).
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
        self._sizing = sizing(graph)
        self._levels = levels
        self._legal: dict[tuple[int, bytes], tuple[tuple[PartitionType, ...], ...]] = {}
        self._solved: dict[tuple[Section, bytes, int], Split] = {}

    def split(self, group: Group, shards: Floats, depth: int = 0) -> Split | None:
        """The cheapest split of a group that earlier splits have left so much; None for one."""
        section = self.bisection.section(group, self.bisection.array.first)
        return self._split(section, shards, depth)

    def _split(self, section: Section, shards: Floats, depth: int) -> Split | None:
        if not section.halves:
            return None
        level = min(depth, len(self._levels) - 1)
        key = (section, shards.tobytes(), level)
        if key not in self._solved:
            self._solved[key] = self._solve(section, shards, depth, level)
        return self._solved[key]

    def _solve(self, section: Section, shards: Floats, depth: int, level: int) -> Split:
        group, halves = section.group, section.halves
        first, second = (half.group for half in halves)
        prices = (self.objective.prices(halves[0]), self.objective.prices(halves[1]))
        share = None if self.balance and first != second else first.size / group.size
        domains = self._domains(shards, level)
        table = self.objective.communication
        terms = terms_of(self._links, domains, table, balanced=share is None)
        size = self._sizing.of(self.batch, shards, fused=self._fused)
        problem = Level(self.graph, domains, terms, size, prices, share, self.objective)
        cost, partitions, lower = problem.solve()
        left = kept(shards, types_of(partitions), shares_of(partitions))
        below = [self._split(*item, depth + 1) for item in zip(section.below, left, strict=True)]
        same = one_of(*below) if first == second else None  # with shares of one half
        return Split(tuple(partitions), cost, tuple(below) if same is None else same, lower)

    def _domains(self, shards: Floats, level: int) -> tuple[tuple[PartitionType, ...], ...]:
        """The wanted types that are legal; where none is, the batch is split.

        They change where groups are left that do not part.
        """
        key = (level, self._sizing.parted(shards).tobytes())
        if key not in self._legal:
            groups = shards[:, IV].tolist()
            self._legal[key] = tuple(
                tuple(one for one in legal(node, Shard(groups=left)) if one in wanted) or (I,)
                for node, left, wanted in zip(self.graph, groups, self._levels[level], strict=True)
            )
        return self._legal[key]
