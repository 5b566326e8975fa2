"""One split of a group in two: what every choice of types costs, and the cheapest."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from planners.bounds import bounded
from planners.min_sum import Factor, TooWideError, minimise
from planners.objective import Choice, Objective, Prices, choice, edge
from planners.partition import (
    I,
    Partition,
    PartitionType,
    Sizes,
    producer_type,
    tied_sums,
)
from workloads import Graph

Domains = Sequence[Sequence[PartitionType]]
"""For each node, the types it may take."""


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
