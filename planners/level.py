"""One split of a group in two: what every choice of types costs, and the cheapest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planners.bounds import bounded
from planners.choices import Choices, Floats
from planners.min_sum import TooWideError, factors_of, minimise_entries
from planners.objective import Objective, Prices
from planners.order import SUMMED_IN, Phase
from planners.partition import Partition, PartitionType
from planners.sizing import AllSizes
from planners.terms import Terms
from planners.tied import tied_sums
from workloads import Graph

_NO_SUMS = np.zeros((1, len(PartitionType)))


class Level:
    """The min-sum problem of one split: types for every node, and their shares.

    ``share`` fixes the first side's share; None solves it per layer and pair
    of types. A join takes the share of its main producer, which depends on
    that layer's type and its producer's.

    One entry of a layer's table: a layer of type II does 80 FLOPs, its halves
    complete 6 elements of partial sums, and its producer of type I left rows of an
    input of 16 elements where it reads columns: a half with share a receives
    6 + 32 a (1 - a). At 1 s an element, and a FLOP of 1 s in the first half and
    0.5 s in the second,

        even:      40 + 6 + 8    = 54 s and 20 + 6 + 8    = 34 s, cost 54 s
        balanced:  26.7 + 6 + 7.1 = 39.8 s in both, the first's share 1/3
    """

    def __init__(
        self,
        graph: Graph,
        domains: Sequence[Sequence[PartitionType]],
        terms: Terms,
        size: AllSizes,
        prices: tuple[Prices, Prices],
        share: float | None,
        objective: Objective,
    ) -> None:
        self.graph = graph
        self.domains = domains
        self.terms = terms
        self.size = size
        self.prices = prices
        self.share = share
        self.pooled = objective.pooled or objective.communication.pooled

    def solve(self) -> tuple[float, list[Partition], float | None]:
        """The least cost, the partitions that have it, and None.

        Where the graph is too wide for that: a low cost, its partitions, and a
        lower bound on the least cost.
        """
        terms = self.terms
        costs, shares = self.entries()
        lower = None
        try:
            cost, picks = minimise_entries(terms.counts, terms.scopes, costs)
        except TooWideError:
            found = bounded(terms.counts, factors_of(terms.counts, terms.scopes, costs))
            cost, picks, lower = found.cost, found.choice, found.lower
        return cost, self._partitions(picks, shares), lower

    def entries(self) -> tuple[Floats, Floats | float]:
        """The cost of every entry of every term, and the share, or that of each if balanced."""
        choices = self.choices()
        if self.share is not None:
            return choices.cost(self.prices, self.share), self.share
        shares = np.append(choices.balanced(self.prices), 0.5)[self.terms.share]
        return choices.cost(self.prices, shares), shares

    def choices(self) -> Choices:
        """What every entry's halves do and receive."""
        terms = self.terms
        forward, backward, gradient = self.size.flops
        work = np.append(forward + backward + gradient, 0.0)  # behind the last: nobody's
        sums = np.append(self.size.sums(pooled=self.pooled), _NO_SUMS, axis=0)
        read, weights = self.size.reads, self.size.weights
        swap, rest = np.zeros(len(terms.node)), np.zeros(len(terms.node))
        for edge in terms.edges:
            elements = read[edge.tensor]
            swap, rest = swap + edge.swap * elements, rest + edge.rest * elements
        fixed = sums[terms.node, terms.own]
        for tie in terms.ties:
            node, owner = self.graph[tie.node], self.graph[tie.owner]
            both = float(weights[tie.node]), float(weights[tie.owner])
            moved = np.array([tied_sums(node, owner, types, *both) for types in tie.types])
            of_batch = np.isin(terms.own[tie.entries], SUMMED_IN[Phase.GRADIENT])
            fixed[tie.entries] = np.where(of_batch, moved[:, 0], fixed[tie.entries])
            swap[tie.entries] += moved[:, 1]
        return Choices(work[terms.node], fixed, rest, swap)

    def _partitions(self, picks: Sequence[int], shares: Floats | float) -> list[Partition]:
        """Each node's partition; those that are equal are one object."""
        if isinstance(shares, float):
            even = [Partition(type_, shares) for type_ in PartitionType]
            return [even[domain[pick]] for domain, pick in zip(self.domains, picks, strict=True)]
        made: dict[tuple[int, float], Partition] = {}
        found = []
        for v, (domain, pick) in enumerate(zip(self.domains, picks, strict=True)):
            main = self.graph[v].main if self.graph[v].join else v
            share = 0.5 if main is None else float(shares[self.terms.entry(main, picks)])
            type_ = domain[pick]
            found.append(made.setdefault((int(type_), share), Partition(type_, share)))
        return found
