"""The least that any layout of some numbers of cores takes: the chain's relaxation.

No layout takes less than its products, and than the least sum of the chain. Most states of
most nodes are never looked at: those whose node takes more than a limit with the least that
all others take are left out. If the least of the rest is below the limit, it is the bound; if
not, none is below the limit, and a higher one is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from simulator.planning.chain import Chain
from simulator.planning.narrowed import by_themselves
from simulator.planning.tables import Tables

RISE = 1.15
"""From one limit to the next."""


@dataclass(eq=False)
class Size:
    """So many cores; where ``filled``, no layout leaves any of them without some node."""

    tables: Tables
    filled: bool

    @cached_property
    def chain(self) -> Chain:
        """Of all states."""
        return Chain(self.tables, filled=self.filled, sure=True)

    def least_s(self, limit_s: float) -> float:
        """What no layout of so many cores undercuts, or the limit where that is more."""
        tables = by_themselves(self.chain, limit_s)
        if tables is None:
            return limit_s
        best, *_ = Chain(tables, filled=self.filled, sure=True).best()
        return min(limit_s, best.bound_s)


def least_s(sizes: Sequence[Size]) -> float:
    """What no layout of any of these numbers of cores undercuts."""
    limit_s = min(one.tables.products_s for one in sizes)
    while True:
        limit_s *= RISE
        found_s = at_most_s(sizes, limit_s)
        if found_s < limit_s:
            return found_s


def at_most_s(sizes: Sequence[Size], limit_s: float) -> float:
    """The same, or the limit where that is less."""
    for one in sorted(sizes, key=lambda one: one.tables.products_s):
        if one.tables.products_s < limit_s:
            limit_s = one.least_s(limit_s)
    return limit_s
