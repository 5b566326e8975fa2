"""The terms of a split's cost, entry by entry: what the graph and the types allowed decide.

Every product is a term over its own type, its producers' and that of the owner of
its weights; every edge into a join is one. The entries of all their tables lie one
after the other, so that a split is priced in a few operations on long arrays,
however many layers there are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planners.cost.objective import Objective, Prices, edge
from planners.cost.tied_weights import tied_sums
from planners.hierarchy.bounds import bounded
from planners.hierarchy.min_sum import TooWideError, factors_of, minimise_entries
from planners.order import SUMMED_IN, Phase
from planners.partition import AS_PRODUCER, Communication, Partition, PartitionType
from planners.sizing import AllSizes
from workloads import Graph

Domains = Sequence[Sequence[PartitionType]]
"""For each node, the types it may take."""

Ints = NDArray[np.intp]
Floats = NDArray[np.float64]


class Link(NamedTuple):
    """What of a node decides which terms there are: whether it joins, and whose types matter.

    ``computed`` ones multiply what others make: their further edges bring operands.
    """

    join: bool
    producers: tuple[int, ...]
    main: int | None
    tied: int | None
    computed: bool = False


def links_of(graph: Graph) -> tuple[Link, ...]:
    """The links of every node."""
    return tuple(
        Link(node.join, node.producers, node.main, node.tied, node.operand > 0) for node in graph
    )


class Edge(NamedTuple):
    """One edge of every term: which tensor it reads, and what of it counts as swap and as rest.

    Tensors are numbered over all edges of the graph, node by node.
    """

    tensor: Ints
    swap: Floats
    rest: Floats


class Tie(NamedTuple):
    """A product whose weights are another's, and its entries with both types of each."""

    node: int
    owner: int
    entries: slice
    types: tuple[tuple[PartitionType, PartitionType], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Terms:
    """All terms of one split. Entry arrays have one length.

    ``counts`` are the nodes' numbers of types; ``scopes`` and ``starts`` are those of each
    term: the nodes its table spans, and its first entry. ``node`` is whose product an
    entry prices (one past the last node: an edge into a join, nobody's), ``own`` its
    type. ``edges`` are the first, second, ... of each term. ``share`` is the entry whose
    share one takes, -1 where that is a half; ``priced`` is the term of each product.
    """

    counts: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]
    starts: tuple[int, ...]
    node: Ints
    own: Ints
    edges: tuple[Edge, ...]
    ties: tuple[Tie, ...]
    share: Ints
    priced: dict[int, int]

    def entry(self, product: int, picks: Sequence[int]) -> int:
        """The entry that prices a product when every node picks so."""
        term = self.priced[product]
        place = 0
        for v in self.scopes[term]:
            place = place * self.counts[v] + picks[v]
        return self.starts[term] + place


class _Term(NamedTuple):
    """A product, or (``edge``) an edge into a join, and the nodes whose types decide its cost."""

    node: int
    edge: int | None
    scope: tuple[int, ...]


def _places(links: Sequence[Link], *, balanced: bool) -> Iterator[_Term]:
    def scope(v: int) -> set[int]:
        tied = links[v].tied
        return {v, *links[v].producers} | (set() if tied is None else {tied})

    for v, link in enumerate(links):
        if not link.join:
            yield _Term(v, None, tuple(sorted(scope(v))))
            continue
        shared = scope(link.main) if balanced and link.main is not None else set[int]()
        for e, producer in enumerate(link.producers):
            yield _Term(v, e, tuple(sorted({v, producer} | shared)))


@lru_cache(maxsize=64)
def terms_of(
    links: tuple[Link, ...],
    domains: tuple[tuple[PartitionType, ...], ...],
    table: Communication,
    *,
    balanced: bool,
) -> Terms:
    """Every term of a split; where sides are ``balanced``, a join's span its main product's."""
    counts = tuple(map(len, domains))
    terms = [*_places(links, balanced=balanced)]
    lengths = [math.prod(counts[v] for v in term.scope) for term in terms]
    starts = [0, *accumulate(lengths)]
    made = Terms(
        counts,
        tuple(term.scope for term in terms),
        tuple(starts[:-1]),
        _repeated([t.node if t.edge is None else len(links) for t in terms], lengths),
        *_numbers(links, domains, terms, lengths, table),
        np.full(starts[-1], -1),
        {term.node: number for number, term in enumerate(terms) if term.edge is None},
    )
    if balanced:
        _share(made, links, terms)
    return made


def _numbers(
    links: Sequence[Link],
    domains: Sequence[tuple[PartitionType, ...]],
    terms: Sequence[_Term],
    lengths: Sequence[int],
    table: Communication,
) -> tuple[Ints, tuple[Edge, ...], tuple[Tie, ...]]:
    """Each entry's own type, its edges, and the ties."""
    own, ties = list[Ints](), list[Tie]()
    first = [0, *accumulate(len(link.producers) for link in links)]
    read: list[list[tuple[int, Floats, Floats]]] = []
    start = 0
    for (v, e, scope), length in zip(terms, lengths, strict=True):
        place = {u: i for i, u in enumerate(scope)}
        of = tuple(domains[u] for u in scope)
        types = _types(of)
        own.append(types[place[v]])
        edges = range(len(links[v].producers)) if e is None else (e,)
        read.append([])
        for k in edges:
            producer = links[v].producers[k]
            sides = place[producer], links[producer].join, place[v]
            parts = _parts(of, *sides, table, operand=links[v].computed and k > 0)
            read[-1].append((first[v] + k, *parts))
        owner = links[v].tied
        if e is None and owner is not None:
            pairs = zip(types[place[v]].tolist(), types[place[owner]].tolist(), strict=True)
            both = tuple((PartitionType(a), PartitionType(b)) for a, b in pairs)
            ties.append(Tie(v, owner, slice(start, start + length), both))
        start += length
    edges_ = tuple(
        _column([of[k] if k < len(of) else None for of in read], lengths)
        for k in range(max(map(len, read), default=0))
    )
    return _joined(own), edges_, tuple(ties)


def _column(parts: Sequence[tuple[int, Floats, Floats] | None], lengths: Sequence[int]) -> Edge:
    """One edge of every term; a term that has none reads nothing of the first tensor."""
    known = [
        (0, np.zeros(length), np.zeros(length)) if part is None else part
        for part, length in zip(parts, lengths, strict=True)
    ]
    return Edge(
        _repeated([tensor for tensor, _, _ in known], lengths),
        np.concatenate([swap for _, swap, _ in known]),
        np.concatenate([rest for _, _, rest in known]),
    )


def _share(made: Terms, links: Sequence[Link], terms: Sequence[_Term]) -> None:
    """For every entry, the entry of its main product under the same types."""
    for (v, e, scope), start in zip(terms, made.starts, strict=True):
        main = v if e is None else links[v].main
        if main is None:
            continue
        digits = _digits(tuple(made.counts[u] for u in scope))
        place = {u: i for i, u in enumerate(scope)}
        at = np.zeros(digits.shape[1], dtype=np.intp)
        for u in made.scopes[made.priced[main]]:
            at = at * made.counts[u] + digits[place[u]]
        made.share[start : start + len(at)] = made.starts[made.priced[main]] + at


def _repeated(values: Sequence[int], lengths: Sequence[int]) -> Ints:
    return np.repeat(np.array(values, dtype=np.intp), np.array(lengths, dtype=np.intp))


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate([np.array([], dtype=np.intp), *parts])


@lru_cache(maxsize=1 << 10)
def _digits(counts: tuple[int, ...]) -> Ints:
    """Every combination of so many values each, a row for each place, the last the fastest."""
    return np.indices(counts).reshape(len(counts), -1)


@lru_cache(maxsize=1 << 10)
def _types(domains: tuple[tuple[PartitionType, ...], ...]) -> list[Ints]:
    """The types of every combination, for each node of a scope."""
    digits = _digits(tuple(map(len, domains)))
    return [np.array(domain, dtype=np.intp)[at] for domain, at in zip(domains, digits, strict=True)]


@lru_cache(maxsize=1 << 12)
def _parts(
    domains: tuple[tuple[PartitionType, ...], ...],
    producer: int,
    join: bool,
    consumer: int,
    table: Communication,
    *,
    operand: bool,
) -> tuple[Floats, Floats]:
    """What of one element read counts as swap and as rest, in every combination of types."""
    types = _types(domains)
    made = np.array(AS_PRODUCER)[types[producer]] if join else types[producer]
    known = {
        (a, b): edge(PartitionType(a), PartitionType(b), 1.0, table, operand=operand)
        for a, b in {*zip(made.tolist(), types[consumer].tolist(), strict=True)}
    }
    pairs = [known[pair] for pair in zip(made.tolist(), types[consumer].tolist(), strict=True)]
    return np.array([swap for swap, _ in pairs]), np.array([rest for _, rest in pairs])


Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Choices:
    """Numbers of products and boundaries under one choice of types each, linear but for a swap.

    A half with share a spends ``fixed + a * work + (1 - a) * rest + a * (1 - a) * swap``
    in units of its prices: ``work`` FLOPs, the others elements. All arrays have one
    length, and each number comes out as it would by itself, to the last bit.
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

        Where the quadratic has two roots within 0...1 the cheaper one is taken.
        """
        one, other = self._roots(prices)
        has_one, has_other = (one >= 0.0) & (one <= 1.0), (other >= 0.0) & (other <= 1.0)
        neither = ~(has_one | has_other)
        one, other = np.where(neither, 0.0, one), np.where(neither, 1.0, other)
        with np.errstate(all="ignore"):
            costs = self.cost(prices, one), self.cost(prices, other)
        cheaper = (costs[1] < costs[0]) | ((costs[1] == costs[0]) & (other < one))
        take_other = np.where(has_one == has_other, cheaper, has_other)
        return np.where(take_other, other, one)

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
        for part in terms.edges:
            elements = read[part.tensor]
            swap, rest = swap + part.swap * elements, rest + part.rest * elements
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
