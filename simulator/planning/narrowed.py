"""Fewer states of every node: those of layouts that may take less than some seconds.

A bound is the least over all layouts. If a node in some state, with the least that all
others take, takes 3 ms already, no layout with that state takes less; whoever
asks what is below 3 ms need not look at it, and pairs with it are never worked out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from simulator.planning.chain import Chain
from simulator.planning.costs import Costs
from simulator.planning.floor import by_weight
from simulator.planning.states import States
from simulator.planning.tables import Tables

Kept = NDArray[np.bool_]


def by_themselves(chain: Chain, limit_s: float) -> Tables | None:
    """The tables without states that take so long without any pair; None if nothing is left."""
    kept = [np.ones(len(costs.states), dtype=np.bool_) for costs in chain.nodes]
    for each in by_weight(chain):
        least = [float(one.min()) for one in each]
        whole_s = sum(least)
        for one, own, least_s in zip(kept, each, least, strict=True):
            one &= whole_s - least_s + own < limit_s
    return _without(chain, kept)


def _without(chain: Chain, kept: Sequence[Kept]) -> Tables | None:
    """Nodes that cost the same keep the same states, those that any of them needs."""
    needed: dict[int, Kept] = {}
    for costs, one in zip(chain.nodes, kept, strict=True):
        if not one.any():
            return None
        needed[id(costs)] = needed.get(id(costs), one) | one
    if all(one.all() for one in needed.values()):
        return chain.tables
    fewer = {id(costs): _fewer(costs, needed[id(costs)]) for costs in chain.nodes}
    return chain.tables.with_nodes([fewer[id(costs)] for costs in chain.nodes])


def _fewer(costs: Costs, kept: Kept) -> Costs:
    states = costs.states
    types = states.types[kept]
    numbers = {tuple(row): number for number, row in enumerate(types.tolist())}
    some = States(types, states.masks[:, kept], states.counts[:, kept], False, numbers)
    return Costs(some, *(values[kept] for values in costs[1:]))
