"""Planning top-down over the bisected array, one exact search per distinct split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hardware import Array, Group, bisection_of
from planners.medium import check_array
from planners.objective import Objective
from planners.partition import (
    III,
    IV,
    LAYOUTS,
    WHOLE,
    Communication,
    I,
    PartitionType,
    Shard,
    legal,
    shrunk,
    sizes,
)
from planners.plan import Plan, PlanError, Split
from workloads import Graph, Network, Node, partition_graph

if TYPE_CHECKING:
    from planners.level import Domains

Allowed = Callable[[Node], Sequence[PartitionType]]
"""Which types a planner lets a weighted layer take, in ascending order."""

LARGEST_BATCH = 1 << 24


def plan_hierarchy(
    planner: str,
    network: Network,
    array: Array,
    batch: int,
    objective: Objective,
    allowed: Allowed,
    *,
    balance: bool = False,
) -> Plan:
    """Search every split of ``array`` for the cheapest allowed types, top-down.

    Shares follow the number of accelerators on each side: one half where the
    sides are alike or equally many. With ``balance``, sides that differ share
    each layer so that both finish together (AccPar).
    """
    if not 1 <= batch <= LARGEST_BATCH:
        raise PlanError(f"batch {batch} is out of range; it must be within 1...{LARGEST_BATCH}")
    graph = partition_graph(network)
    domains = [LAYOUTS if node.join else tuple(allowed(node)) for node in graph]
    check_table(planner, graph, domains, objective.communication)
    search = Search(graph, [domains], batch, objective, array, balance=balance)
    root = search.split(array.group, (WHOLE,) * len(graph))
    names = tuple(node.name for node in graph)
    return Plan(planner, network.name, batch, objective.name, names, root, objective.communication)


def check_table(
    planner: str,
    graph: Graph,
    domains: Domains,
    table: Communication,
) -> None:
    """Raise PlanError where a communication table has no entry for what may come up."""
    if table is Communication.PLOTTED:
        hint = f"the '{table}' communication table is of types I and II in a chain; use 'printed'"
        for node, domain in zip(graph, domains, strict=True):
            if node.join:
                raise PlanError(f"{node.name!r} joins paths: {hint}")
            for unknown in sorted({III, IV} & {*domain} & {*legal(node)}):
                raise PlanError(f"planner {planner!r} chooses type {unknown}: {hint}")


class Search:
    """One planning run: what stays the same at every split, and the splits solved so far.

    ``levels`` are the domains of each level from the top; the last one holds below too.
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
        self.levels = levels
        self.batch = batch
        self.objective = objective
        self.balance = balance
        self._solved: dict[tuple[Group, tuple[Shard, ...], int], Split] = {}

    def split(self, group: Group, shards: tuple[Shard, ...], level: int = 0) -> Split | None:
        """The cheapest split of a group that earlier splits have left so much; None for one."""
        if group.size == 1:
            return None
        key = (group, shards, min(level, len(self.levels) - 1))
        if key not in self._solved:
            self._solved[key] = self._solve(group, shards, level)
        return self._solved[key]

    def _solve(self, group: Group, shards: tuple[Shard, ...], depth: int) -> Split:
        from planners.level import Level  # with NumPy, which names and lists of planners do without

        halves = self.bisection.halves(group)
        first, second = (half.group for half in halves)
        fused = group.arithmetic.fused
        pairs = zip(self.graph, shards, strict=True)
        size = [sizes(node, self.batch, shard, fused=fused) for node, shard in pairs]
        prices = (self.objective.prices(halves[0]), self.objective.prices(halves[1]))
        share = None if self.balance and first != second else first.size / group.size
        wanted = self.levels[min(depth, len(self.levels) - 1)]
        domains = [_legal(*item) for item in zip(self.graph, shards, wanted, strict=True)]
        level = Level(self.graph, domains, size, prices, share, self.objective)
        cost, partitions, lower = level.solve()
        kept = shrunk(shards, partitions)
        alike = first == second  # so their share is one half, and both keep the same
        sides = zip((first,) if alike else (first, second), kept, strict=False)
        below = tuple(self.split(*side, depth + 1) for side in sides)
        return Split(tuple(partitions), cost, below, lower)


def _legal(node: Node, shard: Shard, wanted: Sequence[PartitionType]) -> tuple[PartitionType, ...]:
    """The wanted types that are legal; where none is, the batch is split."""
    return tuple(one for one in legal(node, shard) if one in wanted) or (I,)
