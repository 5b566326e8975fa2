"""Layouts where paths part and join: exchanges between all nodes count, not only neighbours.

The chain's own sum leaves out what may go on beside products. It is a bound;
the layout that has the least of it may re-lay tensors of other edges as if that
were free. Here every edge costs what it costs, on the states that the chain
ranks first, and the sum is minimised exactly (``planners.hierarchy.min_sum``) as far as
the graph's width allows. Of a network whose blocks repeat all nodes of a sort have
one state together: of 24 encoder layers one is planned.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planners.hierarchy.min_sum import Factor, TooWideError, elimination_order, minimise
from simulator.planning.chain import Chain
from simulator.planning.curves import Floats, Ints

KEPT = (64, 32, 16, 8, 4)
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
    first = {id(costs): v for v, costs in reversed(list(enumerate(chain.nodes)))}
    alike = [first[id(costs)] for costs in chain.nodes]
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
    for many in KEPT:
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
