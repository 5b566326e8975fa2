"""Layouts of like cores: the likely best ones, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hardware import Array, Device
from planners import Plan
from planners.hierarchy.min_sum import Factor, TooWideError, elimination_order, minimise
from planners.partition import USUAL, I, PartitionType
from simulator.engine.jobs import Floats, Ints
from simulator.search.candidates import leaves_of
from simulator.search.relaxation import Chain
from simulator.search.states import Types
from simulator.search.tables import Cores

BEAMS = (64, 32, 16, 8, 4)
"""States of a node that are kept: the first number for which the tables are not too large."""


MOST_NODES = 80
"""With more of them only those of a sort together: 250 nodes take a second for each weight."""


def with_branches(chain: Chain, weight: float) -> Iterator[tuple[int, ...]]:
    """The least layout by all edges where not all are between neighbours, as far as it is narrow.

    First of those in which all nodes of a sort have the same state, if there are such.
    """
    if not any(True for _ in _others(chain)):
        return
    single = list(range(len(chain.nodes)))
    sorts = chain.tables.sorts
    alike = [sorts.index(sort) for sort in sorts]
    marginals = chain.marginals(weight)
    for of in (alike, *([single] if len(single) <= MOST_NODES else [])):
        if of is alike and alike == single:
            continue
        picks = _least(chain, weight, marginals, of)
        if picks is not None:
            yield picks


def _least(
    chain: Chain, weight: float, marginals: list[Floats], of: list[int]
) -> tuple[int, ...] | None:
    """The least layout in which every node ``v`` has the state of node ``of[v]``."""
    variables = sorted(set(of))
    number = [variables.index(v) for v in of]
    ranks = [np.zeros(len(marginals[v])) for v in variables]
    for v, marginal in zip(number, marginals, strict=True):
        ranks[v] = ranks[v] + marginal
    scopes = tuple(_scopes(chain, number))
    for many in BEAMS:
        kept = [np.argsort(one, kind="stable")[:many] for one in ranks]
        domains = tuple(len(one) for one in kept)
        try:
            elimination_order(domains, scopes)
        except TooWideError:  # before any table is made
            continue
        factors = _factors(chain, weight, [kept[v] for v in number])
        _, picks = minimise(domains, [_joined(f, number) for f in factors])
        return tuple(int(kept[v][picks[v]]) for v in number)
    return None


def _scopes(chain: Chain, number: list[int]) -> Iterator[tuple[int, ...]]:
    """Which variables every factor will be over."""
    for v, variable in enumerate(number):
        yield (variable,)
        if v:
            yield _scope(number[v - 1], variable)
    for producer, _, v in _others(chain):
        yield _scope(number[producer], number[v])


def _scope(*variables: int) -> tuple[int, ...]:
    return tuple(dict.fromkeys(variables))


def _joined(factor: Factor, number: list[int]) -> Factor:
    """A factor over the variables that its nodes have; where they have one, its diagonal."""
    scope = _scope(*(number[v] for v in factor.scope))
    one = len(scope) < len(factor.scope)
    return Factor(scope, np.diagonal(factor.table).copy() if one else factor.table)


def _others(chain: Chain) -> Iterator[tuple[int, int, int]]:
    """(producer, edge, consumer) of every edge between nodes that are no neighbours."""
    for v, node in enumerate(chain.tables.graph):
        for edge, producer in enumerate(node.producers):
            if producer != v - 1:
                yield producer, edge, v


def _factors(chain: Chain, weight: float, kept: list[Ints]) -> Iterator[Factor]:
    tables = chain.tables
    for v, states in enumerate(kept):
        own = chain.own(v, weight) + _unwaited(chain, v, weight)
        yield Factor((v,), own[states])
        if v:
            pair = chain.pair(v, weight)
            yield Factor((v - 1, v), pair[np.ix_(kept[v - 1], states)])
    for producer, edge, v in _others(chain):
        some = np.ix_(kept[producer], kept[v])
        ahead, back = tables.forward_relay(edge, v)[some], tables.backward_relay(edge, v)[some]
        yield Factor((producer, v), ahead + (1.0 - weight) * back)


def _unwaited(chain: Chain, v: int, weight: float) -> Floats:
    """A node's sums where the chain counts none of them, because no neighbour waits for them."""
    graph, costs = chain.tables.graph, chain.nodes[v]
    found = np.zeros(len(costs.states))
    if not chain.overlap:
        return found
    if v + 1 < len(graph) and v not in graph[v + 1].producers:
        found = found + costs.forward_sums_s
    if v and v - 1 not in graph[v].producers:
        found = found + (1.0 - weight) * costs.backward_sums_s
    return found


Layout = tuple[Cores, tuple[Types, ...]]
"""Which cores work, and the types of every node, outermost first."""


def layout_of(plan: Plan, array: Array) -> Layout | None:
    """The first 2^j cores of a kind, halved alike all the way down; None of any other plan."""
    group, split, first = plan.group(array), plan.root, 0
    while split is not None and split.idle and len(split.working) == 1:
        (working,) = split.working
        first += working * group.halves()[0].size
        group, split = group.halves()[working], split.halves[working]
    (device, _), *others = group.kinds
    cores = first_cores(array, device, group.size)
    if others or plan.updates or cores is None or cores.first != first:
        return None
    levels: list[Sequence[PartitionType]] = []
    while split is not None:
        if len(split.halves) == 2 and split.halves[0] != split.halves[1]:
            return None
        if {partition.share for partition in split.partitions} != {0.5}:
            return None
        levels.append(split.types)
        split = split.halves[0]
    if group.size != 1 << len(levels):
        return None
    types: tuple[Types, ...] = tuple(zip(*levels, strict=True)) or ((),) * len(plan.nodes)
    return (cores, types) if all(one in USUAL for of in types for one in of) else None


MOST_CORES = 1 << 10
"""Of one kind; more are planned by the other planners alone."""


def first_cores(array: Array, device: Device, size: int) -> Cores | None:
    """The first ``size`` cores of a kind; None unless they halve into alike ones all the way."""
    most = leaves_of(array.group, device)
    if size & (size - 1) or most & (most - 1) or size > MOST_CORES:
        return None
    first = array.first
    for other, _ in array.group.kinds:
        if other == device:
            break
        first += leaves_of(array.group, other)
    return Cores(array, device, first, size.bit_length() - 1)


def layouts(chain: Chain) -> Iterator[tuple[int, ...]]:
    """Layouts by the numbers of their states, likely ones first, each once."""
    seen = set[tuple[int, ...]]()
    for picks in _likely(chain):
        if picks not in seen:
            seen.add(picks)
            yield picks


def _likely(chain: Chain) -> Iterator[tuple[int, ...]]:
    for found in chain.best():
        yield found.picks
        yield from with_branches(chain, found.weight)
    samples = (I,) * chain.tables.cores.levels
    if all(samples in costs.states.numbers for costs in chain.nodes):
        yield tuple(costs.states.numbers[samples] for costs in chain.nodes)
