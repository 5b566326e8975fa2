"""The least that any layout of some numbers of cores takes: the bound itself.

No layout takes less than its products, and than the sums of the chain. Those that may be below some
limit are followed by ``earliest_s``, core, stream and ports together. If the least of
all is below the limit it is the bound; if not, none is below the limit, and a higher one is
tried: so most states of most nodes are never looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from simulator.planning.chain import MOST_WEIGHT, Chain
from simulator.planning.earliest import earliest_s
from simulator.planning.narrowed import by_pairs, by_themselves
from simulator.planning.ports import Ports
from simulator.planning.shortcuts import least_s as shortcuts_s
from simulator.planning.tables import Tables

RISE = 1.15
"""From one limit to the next."""
MOST_FOLLOWED = 20e6
"""Pairs of neighbours' states that are followed, all sizes and limits together: a few seconds."""


@dataclass(eq=False)
class Size:
    """So many cores; where ``filled``, no layout leaves any of them without some node."""

    tables: Tables
    filled: bool

    @cached_property
    def chain(self) -> Chain:
        """Of all states."""
        return Chain(self.tables, filled=self.filled, sure=True)

    @cached_property
    def ports(self) -> Ports:
        """The links that its cores share."""
        return Ports(self.tables.curves)


class _Effort:
    """Pairs that may still be followed."""

    def __init__(self) -> None:
        self._left = MOST_FOLLOWED

    def spend(self, chain: Chain) -> bool:
        """Whether the pairs of a chain may be followed."""
        sizes = [len(costs.states) for costs in chain.nodes]
        self._left -= sum(one * other for one, other in pairwise(sizes))
        return self._left >= 0


def least_s(sizes: Sequence[Size]) -> float:
    """What no layout of any of these numbers of cores undercuts."""
    ranked = sorted(sizes, key=lambda one: one.tables.products_s)
    limit_s, effort = ranked[0].tables.products_s, _Effort()
    while True:
        limit_s *= RISE
        found_s = _below(ranked, limit_s, effort)
        if found_s < limit_s:
            return found_s


def at_most_s(sizes: Sequence[Size], limit_s: float) -> float:
    """The same, or the limit where that is less."""
    return _below(sorted(sizes, key=lambda one: one.tables.products_s), limit_s, _Effort())


def _below(ranked: Sequence[Size], limit_s: float, effort: _Effort) -> float:
    for one in ranked:
        if one.tables.products_s < limit_s:
            limit_s = _of_size(one, limit_s, effort)
    return limit_s


def _of_size(size: Size, limit_s: float, effort: _Effort) -> float:
    """What no layout of so many cores undercuts, or the limit where that is more."""
    tables = by_themselves(size.chain, limit_s)
    if tables is None:
        return limit_s
    chain = Chain(tables, filled=size.filled, sure=True)
    best, *_ = chain.best()
    if best.bound_s >= limit_s or not chain.overlap:
        return min(limit_s, best.bound_s)
    tables = by_pairs(chain, (0.0, best.weight, MOST_WEIGHT), limit_s)
    if tables is None:
        return limit_s
    chain = Chain(tables, filled=size.filled, sure=True)
    found_s = max(best.bound_s, shortcuts_s(chain))
    if found_s >= limit_s or not effort.spend(chain):
        return min(limit_s, found_s)
    return max(found_s, earliest_s(chain, size.ports, limit_s))
