"""Planning one entry, one table and one layer after the other: the oracle of the quick way.

Every layer is sized, every entry of its table priced and its share balanced by
itself; tables are arrays of their own, and nothing is kept from one split to the next.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hardware import Array, Bisection, Group, bisection_of
from planners.cost.objective import Objective, Prices, edge
from planners.hierarchy.bounds import bounded
from planners.hierarchy.cost_table import Domains
from planners.hierarchy.min_sum import Factor, TooWideError, minimise
from planners.partition import (
    LAYOUTS,
    WHOLE,
    Communication,
    I,
    Partition,
    PartitionType,
    Shard,
    Sizes,
    legal,
    partial_sums,
    producer_type,
    shrink,
    tied_sums,
)
from planners.plan.split import Split
from tests.planners.slow_sizes import sizes
from workloads import Graph, Network, Node, partition_graph

Allowed = Callable[[Node], Sequence[PartitionType]]


def slow_root(
    network: Network,
    array: Array,
    batch: int,
    objective: Objective,
    allowed: Allowed,
    *,
    balance: bool = False,
) -> Split | None:
    """The root of the plan that ``plan_hierarchy`` makes."""
    graph = partition_graph(network)
    domains = [LAYOUTS if node.join else tuple(allowed(node)) for node in graph]
    search = _SlowSearch(graph, domains, batch, objective, bisection_of(array), balance)
    return search.split(array.group, (WHOLE,) * len(graph))


@dataclass(frozen=True, slots=True)
class _SlowSearch:
    graph: Graph
    wanted: Domains
    batch: int
    objective: Objective
    bisection: Bisection
    balance: bool

    def split(self, group: Group, shards: Sequence[Shard]) -> Split | None:
        if group.size == 1:
            return None
        halves = self.bisection.halves(group)
        first, second = (half.group for half in halves)
        pairs = list(zip(self.graph, shards, strict=True))
        fused = group.arithmetic.fused
        size = [sizes(node, self.batch, shard, fused=fused) for node, shard in pairs]
        prices = (self.objective.prices(halves[0]), self.objective.prices(halves[1]))
        share = None if self.balance and first != second else first.size / group.size
        domains = [
            tuple(one for one in legal(node, shard) if one in wanted) or (I,)
            for (node, shard), wanted in zip(pairs, self.wanted, strict=True)
        ]
        level = SlowLevel(self.graph, domains, size, prices, share, self.objective)
        cost, partitions, lower = level.solve()
        parts = list(zip(shards, partitions, strict=True))
        kept = (
            [shrink(shard, p.type, p.share) for shard, p in parts],
            [shrink(shard, p.type, 1.0 - p.share) for shard, p in parts],
        )
        sides = ((first, kept[0]),) if first == second else zip((first, second), kept, strict=True)
        return Split(tuple(partitions), cost, tuple(self.split(*side) for side in sides), lower)


@dataclass(frozen=True, slots=True)
class SlowChoice:
    """One node's numbers under one type and one producer type, linear but for a swap.

    A half with share a spends ``fixed + a * work + (1 - a) * rest + a * (1 - a) * swap``
    in units of its prices: ``work`` FLOPs, the others elements.
    """

    work: float
    fixed: float
    rest: float
    swap: float

    def spend(self, prices: Prices, share: float) -> float:
        """What one half spends when it takes ``share``."""
        other = 1.0 - share
        elements = self.fixed + other * self.rest + share * other * self.swap
        return share * self.work * prices.per_flop + elements * prices.per_element

    def cost(self, prices: tuple[Prices, Prices], share: float) -> float:
        """What the slower half spends when the first takes ``share``."""
        return max(self.spend(prices[0], share), self.spend(prices[1], 1.0 - share))

    def balanced(self, prices: tuple[Prices, Prices]) -> float:
        """The first half's share for which both finish together, else the better end.

        Where the quadratic has two roots within 0...1 the cheaper one is taken.
        """
        roots = [share for share in self._roots(prices) if 0.0 <= share <= 1.0]
        return min(roots or (0.0, 1.0), key=lambda share: (self.cost(prices, share), share))

    def _roots(self, prices: tuple[Prices, Prices]) -> list[float]:
        """Where first(a) - second(1 - a) = c + b*a - swap*a*a vanishes.

        The textbook's formula loses digits where b*b is large beside the rest,
        one root being the difference of two near numbers: it is taken from the
        product of both roots, -c/swap, instead.
        """
        first, second = prices
        swap = self.swap * (first.per_element - second.per_element)
        c = (
            self.fixed * (first.per_element - second.per_element)
            + self.rest * first.per_element
            - self.work * second.per_flop
        )
        b = (
            self.work * (first.per_flop + second.per_flop)
            - self.rest * (first.per_element + second.per_element)
            + swap
        )
        if swap == 0.0:
            return [-c / b] if b != 0.0 else []
        discriminant = b * b + 4 * swap * c
        if discriminant < 0.0:
            return []
        q = 0.5 * (b + math.copysign(math.sqrt(discriminant), b))
        return [q / swap] + ([-c / q] if q != 0.0 else [])


def slow_choice(
    size: Sizes,
    own: PartitionType,
    producers: Sequence[PartitionType],
    *,
    pooled: bool,
    table: Communication = Communication.PRINTED,
) -> SlowChoice:
    """The numbers of a product of one type behind producers of others, one for each edge."""
    swap, rest = 0.0, 0.0
    for producer, elements in zip(producers, size.reads, strict=True):
        more_swap, more_rest = edge(producer, own, elements, table)
        swap, rest = swap + more_swap, rest + more_rest
    pooled = pooled or table.pooled
    return SlowChoice(sum(size.flops), partial_sums(own, size, pooled=pooled), rest, swap)


class SlowLevel:
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
        return SlowChoice(0.0, 0.0, rest, swap).cost(self.prices, self.share_of(v, types))

    def share_of(self, v: int, types: dict[int, PartitionType]) -> float:
        """The first side's share of a node."""
        if self.share is not None:
            return self.share
        main = self.graph[v].main if self.graph[v].join else v
        return 0.5 if main is None else self._share(self._choice(main, types))

    def _choice(self, v: int, types: dict[int, PartitionType]) -> SlowChoice:
        seen = [producer_type(self.graph[p], types[p]) for p in self.graph[v].producers]
        numbers = slow_choice(self.size[v], types[v], seen, pooled=self.pooled, table=self.table)
        owner = self.graph[v].tied
        if owner is None:
            return numbers
        pair = (types[v], types[owner])
        fixed, swap = tied_sums(
            self.graph[v], self.graph[owner], pair, self.size[v].weights, self.size[owner].weights
        )
        if types[v] is not I:
            fixed = numbers.fixed
        return replace(numbers, fixed=fixed, swap=numbers.swap + swap)

    def _share(self, numbers: SlowChoice) -> float:
        return numbers.balanced(self.prices) if self.share is None else self.share
