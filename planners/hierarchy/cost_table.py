"""The cost table of one split: what every choice of types costs, and the cheapest choice.

Each product is a term over its own type, its producers' types and that of the owner of
its weights; each edge into a join is a term over both ends. The entries of all terms lie
one after the other, so that a split is priced in a few operations on long arrays.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from planners.cost.objective import Objective, Prices, edge
from planners.hierarchy.bounds import bounded
from planners.hierarchy.min_sum import TooWideError, factors_of, minimise
from planners.order import SUMMED_IN, Phase
from planners.partition import (
    AS_PRODUCER,
    Communication,
    Partition,
    PartitionType,
    is_operand,
    tied_sums,
)
from planners.sizing import AllSizes, Floats, Ints
from workloads import Graph

Domains = Sequence[Sequence[PartitionType]]
"""For each node, the types it may take."""


@dataclass(frozen=True, slots=True)
class Choices:
    """Amounts of products and boundaries, an entry for each choice of types; arrays of one length.

    A half with share a spends ``fixed + a * work + (1 - a) * rest + a * (1 - a) * swap``
    in units of its prices: ``work`` FLOPs, the others elements.
    """

    work: Floats
    fixed: Floats
    rest: Floats
    swap: Floats

    def spend(self, prices: Prices, share: Floats | float) -> Floats:
        """What one half spends when it takes ``share``."""
        other = 1.0 - share
        elements = self.fixed + other * self.rest + share * other * self.swap
        return share * self.work * prices.per_flop + elements * prices.per_element

    def cost(self, prices: tuple[Prices, Prices], share: Floats | float) -> Floats:
        """What the slower half spends when the first takes ``share``."""
        return np.maximum(self.spend(prices[0], share), self.spend(prices[1], 1.0 - share))

    def balanced(self, prices: tuple[Prices, Prices]) -> Floats:
        """The first half's share for which both finish together, else the better end.

        Where the quadratic has two roots within 0...1 the cheaper one is taken. What costs the
        same whoever has it, as a layer without FLOPs may, the faster half has.
        """
        first, second = prices
        one, other = self._roots(prices)
        has_one, has_other = (one >= 0.0) & (one <= 1.0), (other >= 0.0) & (other <= 1.0)
        neither = ~(has_one | has_other)
        one, other = np.where(neither, 0.0, one), np.where(neither, 1.0, other)
        with np.errstate(all="ignore"):
            costs = self.cost(prices, one), self.cost(prices, other)
        firsts = neither & (costs[0] == costs[1]) & (first.per_flop < second.per_flop)
        cheaper = (costs[1] < costs[0]) | ((costs[1] == costs[0]) & (other < one))
        take_other = np.where(has_one == has_other, cheaper, has_other)
        return np.where(take_other | firsts, other, one)

    def _roots(self, prices: tuple[Prices, Prices]) -> tuple[Floats, Floats]:
        """Where first(a) - second(1 - a) = c + b*a - swap*a*a vanishes; NaN or infinite: nowhere.

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
        straight = swap == 0.0
        with np.errstate(all="ignore"):
            q = 0.5 * (b + np.copysign(np.sqrt(b * b + 4 * swap * c), b))
            return np.where(straight, -c / b, q / swap), np.where(straight, np.nan, -c / q)


class Term(NamedTuple):
    """A product, or (``edge``) an edge into a join, and the nodes whose types decide its cost.

    Its entries are those from number ``first`` on: one for each combination of the scope's
    types, the last node's the fastest.
    """

    node: int
    edge: int | None
    scope: tuple[int, ...]
    first: int


class Tie(NamedTuple):
    """A product whose weights are another's: its entries, and both types in each of them."""

    node: int
    owner: int
    entries: slice
    types: list[tuple[PartitionType, PartitionType]]


class Terms:
    """All terms of a split: what the graph, the types allowed and the published table decide.

    Splits of one search with the same types share them. Where sides are ``balanced``, the
    terms of a join span what decides the share of its main product, which it takes.

    ``node`` is whose product each entry prices (one past the last node: an edge into a join),
    ``own`` its type. Edge i is read in entry ``reader[i]``, from tensor ``tensor[i]`` (all
    nodes' reads, one after the other), of which ``swap[i]`` and ``rest[i]`` count.
    """

    def __init__(
        self, graph: Graph, domains: Domains, table: Communication, *, balanced: bool
    ) -> None:
        self.graph, self.domains, self.table = graph, domains, table
        self.counts = tuple(map(len, domains))
        self.terms = [*self._terms(balanced=balanced)]
        self.product = {term.node: term for term in self.terms if term.edge is None}
        self.ties: list[Tie] = []
        node, own = [np.zeros(0, np.intp)], [np.zeros(0, np.intp)]
        edges: list[tuple[Ints, Ints, Floats, Floats]] = [(node[0], node[0], NOTHING, NOTHING)]
        first_read = [0, *accumulate(len(one.producers) for one in graph)]
        for v, e, scope, first in self.terms:
            digits = np.indices([self.counts[u] for u in scope]).reshape(len(scope), -1)
            rows = zip(scope, digits, strict=True)
            types = {u: np.array(domains[u], np.intp)[row] for u, row in rows}
            entries = np.arange(first, first + digits.shape[1])
            node.append(np.full(len(entries), v if e is None else len(graph)))
            own.append(types[v])
            for k in range(len(graph[v].producers)) if e is None else (e,):
                producer = graph[v].producers[k]
                made = types[producer]
                made = PRODUCER[made] if graph[producer].join else made
                swap, rest = boundaries(table, is_operand(graph[v], k))
                tensor = np.full(len(entries), first_read[v] + k)
                edges.append((entries, tensor, swap[made, types[v]], rest[made, types[v]]))
            owner = graph[v].tied
            if e is None and owner is not None:
                pairs = zip(types[v].tolist(), types[owner].tolist(), strict=True)
                both = [(PartitionType(a), PartitionType(b)) for a, b in pairs]
                self.ties.append(Tie(v, owner, slice(first, first + len(entries)), both))
        self.node, self.own = np.concatenate(node), np.concatenate(own)
        self.reader, self.tensor = (np.concatenate([edge[i] for edge in edges]) for i in (0, 1))
        self.swap, self.rest = (np.concatenate([edge[i] for edge in edges]) for i in (2, 3))

    @cached_property
    def share(self) -> Ints:
        """For every entry the one whose share it takes; -1 where that is a half."""
        found = np.full(len(self.node), -1)
        for v, e, scope, first in self.terms:
            main = v if e is None else self.graph[v].main
            if main is not None:
                product, counts = self.product[main], [self.counts[u] for u in scope]
                within = [
                    n if u in product.scope else 1 for u, n in zip(scope, counts, strict=True)
                ]
                entries = np.arange(math.prod(within)).reshape(within) + product.first
                many = math.prod(counts)
                found[first : first + many] = np.broadcast_to(entries, counts).ravel()
        return found

    def entry(self, product: int, picks: Sequence[int]) -> int:
        """The entry that prices a product when every node picks so."""
        _, _, scope, first = self.product[product]
        place = 0
        for v in scope:
            place = place * self.counts[v] + picks[v]
        return first + place

    def _terms(self, *, balanced: bool) -> Iterator[Term]:
        def scope(v: int) -> set[int]:
            tied = self.graph[v].tied
            return {v, *self.graph[v].producers} | (set() if tied is None else {tied})

        first = 0
        for v, node in enumerate(self.graph):
            shared = scope(node.main) if balanced and node.main is not None else set[int]()
            edges = [(e, {v, u} | shared) for e, u in enumerate(node.producers)]
            for e, nodes in edges if node.join else [(None, scope(v))]:
                yield (term := Term(v, e, tuple(sorted(nodes)), first))
                first += math.prod(self.counts[u] for u in term.scope)


NOTHING = np.zeros(0)
PRODUCER = np.array(AS_PRODUCER, np.intp)


@cache
def boundaries(table: Communication, operand: bool) -> tuple[Floats, Floats]:
    """``edge`` of one element for each pair of a producer's and a consumer's type."""
    every = PartitionType
    pairs = [[edge(a, b, 1.0, table, operand=operand) for b in every] for a in every]
    swap, rest = np.moveaxis(np.array(pairs), -1, 0)
    return swap, rest


@dataclass(frozen=True)
class CostTable:
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

    terms: Terms
    size: AllSizes
    prices: tuple[Prices, Prices]
    share: float | None
    objective: Objective

    def solve(self) -> tuple[float, list[Partition], float | None]:
        """The least cost, the partitions that have it, and None.

        Where the graph is too wide for that: a low cost, its partitions, and a
        lower bound on the least cost.
        """
        terms, choices = self.terms, self.choices()
        shares: Floats = np.full(len(terms.node), self.share or 0.0)
        if self.share is None:
            shares = np.append(choices.balanced(self.prices), 0.5)[terms.share]
        costs, lower = choices.cost(self.prices, shares), None
        factors = factors_of(terms.counts, [term.scope for term in terms.terms], costs)
        try:
            cost, picks = minimise(terms.counts, factors)
        except TooWideError:
            cost, picks, lower = bounded(terms.counts, factors)
        return cost, self._partitions(picks, shares), lower

    def choices(self) -> Choices:
        """What every entry's halves do and receive."""
        terms, size, graph = self.terms, self.size, self.terms.graph
        work = np.append(sum(size.flops), 0.0)  # behind the last node: of edges into joins
        sums = size.sums(pooled=self.objective.pooled or self.objective.communication.pooled)
        sums = np.append(sums, np.zeros((1, len(PartitionType))), axis=0)
        read = size.reads[terms.tensor]
        swap, rest = (
            np.bincount(terms.reader, part * read, len(terms.node)).astype(np.float64)
            for part in (terms.swap, terms.rest)
        )
        fixed = sums[terms.node, terms.own]
        for v, owner, entries, types in terms.ties:
            weights = float(size.weights[v]), float(size.weights[owner])
            moved = np.array([tied_sums(graph[v], graph[owner], both, *weights) for both in types])
            of_batch = np.isin(terms.own[entries], SUMMED_IN[Phase.GRADIENT])
            fixed[entries] = np.where(of_batch, moved[:, 0], fixed[entries])
            swap[entries] += moved[:, 1]
        return Choices(work[terms.node], fixed, rest, swap)

    def _partitions(self, picks: Sequence[int], shares: Floats) -> list[Partition]:
        """Each node's partition; those that are equal are one object."""
        made: dict[Partition, Partition] = {}
        found = []
        for v, (domain, pick) in enumerate(zip(self.terms.domains, picks, strict=True)):
            main = self.terms.graph[v].main if self.terms.graph[v].join else v
            share = 0.5 if self.share is None else self.share
            if self.share is None and main is not None:
                share = float(shares[self.terms.entry(main, picks)])
            partition = Partition(domain[pick], share)
            found.append(made.setdefault(partition, partition))
        return found
