"""Planning top-down over the bisected array, one exact search per distinct split."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from hardware import Array, Group, Section, bisection_of
from planners.bounds import bounded
from planners.medium import check_array
from planners.min_sum import Factor, TooWideError, minimise
from planners.objective import Choice, Objective, Prices, choice, edge
from planners.partition import (
    III,
    IV,
    LAYOUTS,
    WHOLE,
    Communication,
    I,
    Partition,
    PartitionType,
    Shard,
    Sizes,
    legal,
    producer_type,
    shrunk,
    sizes,
    tied_sums,
)
from planners.plan import Plan, PlanError, Split, one_of
from workloads import Graph, Network, Node, partition_graph

Allowed = Callable[[Node], Sequence[PartitionType]]
"""Which types a planner lets a weighted layer take, in ascending order."""

Domains = Sequence[Sequence[PartitionType]]
"""For each node, the types it may take."""

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
        self._solved: dict[tuple[Section, tuple[Shard, ...], int], Split] = {}

    def split(self, group: Group, shards: tuple[Shard, ...], level: int = 0) -> Split | None:
        """The cheapest split of a group that earlier splits have left so much; None for one."""
        return self._split(self.bisection.section(group), shards, level)

    def _split(self, section: Section, shards: tuple[Shard, ...], level: int) -> Split | None:
        if not section.halves:
            return None
        key = (section, shards, min(level, len(self.levels) - 1))
        if key not in self._solved:
            self._solved[key] = self._solve(section, shards, level)
        return self._solved[key]

    def _solve(self, section: Section, shards: tuple[Shard, ...], depth: int) -> Split:
        group, halves = section.group, section.halves
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
        below = [self._split(*item, depth + 1) for item in zip(section.below, kept, strict=True)]
        same = one_of(*below) if first == second else None  # with shares of one half
        return Split(tuple(partitions), cost, tuple(below) if same is None else same, lower)


def _legal(node: Node, shard: Shard, wanted: Sequence[PartitionType]) -> tuple[PartitionType, ...]:
    """The wanted types that are legal; where none is, the batch is split."""
    return tuple(one for one in legal(node, shard) if one in wanted) or (I,)


class Level:
    """The min-sum problem of one split: types for every node, and their shares.

    ``share`` fixes the first side's share; None solves it per layer and pair
    of types. A join takes the share of its main producer, which depends on
    that layer's type and its producer's.
    """

    def __init__(
        self,
        graph: Graph,
        domains: Domains,
        size: Sequence[Sizes],
        prices: tuple[Prices, Prices],
        share: float | None,
        objective: Objective,
    ) -> None:
        self.graph = graph
        self.domains = domains
        self.size = size
        self.prices = prices
        self.share = share
        self.pooled = objective.pooled
        self.table = objective.communication

    def solve(self) -> tuple[float, list[Partition], float | None]:
        """The least cost, the partitions that have it, and None.

        Where the graph is too wide for that: a low cost, its partitions, and a
        lower bound on the least cost.
        """
        factors, counts = list(self.factors()), [len(domain) for domain in self.domains]
        lower = None
        try:
            cost, picks = minimise(counts, factors)
        except TooWideError:
            found = bounded(counts, factors)
            cost, picks, lower = found.cost, found.choice, found.lower
        types = {v: self.domains[v][pick] for v, pick in enumerate(picks)}
        partitions = [Partition(types[v], self.share_of(v, types)) for v in range(len(types))]
        return cost, partitions, lower

    def factors(self) -> Iterable[Factor]:
        """Every term of the cost, over the nodes it depends on."""
        for v, node in enumerate(self.graph):
            if not node.join:
                yield self._factor(self._scope(v), self.layer_cost, v)
                continue
            for e, producer in enumerate(node.producers):
                yield self._factor({v, producer, *self._share_scope(v)}, self.edge_cost, v, e)

    def _factor(self, scope: set[int], cost: Callable[..., float], *args: int) -> Factor:
        order = tuple(sorted(scope))
        domains = [self.domains[v] for v in order]
        values = [
            cost(*args, dict(zip(order, types, strict=True)))
            for types in itertools.product(*domains)
        ]
        return Factor(order, np.array(values).reshape([len(domain) for domain in domains]))

    def _share_scope(self, v: int) -> set[int]:
        """The nodes whose types decide a join's share."""
        main = self.graph[v].main
        if self.share is not None or main is None:
            return set()
        return self._scope(main)

    def _scope(self, v: int) -> set[int]:
        """The nodes whose types decide what a product costs."""
        node = self.graph[v]
        return {v, *node.producers} | (set() if node.tied is None else {node.tied})

    def layer_cost(self, v: int, types: dict[int, PartitionType]) -> float:
        """Cost of a weighted layer and the boundary before it.

        One entry of the layer's table. A layer of type II does 80 FLOPs, its
        halves complete 6 elements of partial sums, and its producer of type I
        left rows of an input of 16 elements where it reads columns: a half
        with share a receives 6 + 32 a (1 - a). At 1 s an element, and a FLOP
        of 1 s in the first half and 0.5 s in the second,

            even:      40 + 6 + 8    = 54 s and 20 + 6 + 8    = 34 s, cost 54 s
            balanced:  26.7 + 6 + 7.1 = 39.8 s in both, the first's share 1/3

        ``types`` has the producers' types beside its own, since they decide
        the boundary, and where weights are tied their owner's.
        """
        numbers = self._choice(v, types)
        return numbers.cost(self.prices, self._share(numbers))

    def edge_cost(self, v: int, e: int, types: dict[int, PartitionType]) -> float:
        """Cost of edge ``e`` into a join."""
        producer = self.graph[v].producers[e]
        seen = producer_type(self.graph[producer], types[producer])
        swap, rest = edge(seen, types[v], self.size[v].reads[e], self.table)
        return Choice(0.0, 0.0, rest, swap).cost(self.prices, self.share_of(v, types))

    def share_of(self, v: int, types: dict[int, PartitionType]) -> float:
        """The first side's share of a node."""
        if self.share is not None:
            return self.share
        main = self.graph[v].main if self.graph[v].join else v
        return 0.5 if main is None else self._share(self._choice(main, types))

    def _choice(self, v: int, types: dict[int, PartitionType]) -> Choice:
        seen = [producer_type(self.graph[p], types[p]) for p in self.graph[v].producers]
        numbers = choice(self.size[v], types[v], seen, pooled=self.pooled, table=self.table)
        owner = self.graph[v].tied
        if owner is None:
            return numbers
        pair = (types[v], types[owner])
        fixed, swap = tied_sums(
            self.graph[v], self.graph[owner], pair, self.size[v], self.size[owner]
        )
        if types[v] is not I:
            fixed = numbers.fixed
        return replace(numbers, fixed=fixed, swap=numbers.swap + swap)

    def _share(self, numbers: Choice) -> float:
        return numbers.balanced(self.prices) if self.share is None else self.share
