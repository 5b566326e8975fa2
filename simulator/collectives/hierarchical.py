"""Collectives tier by tier: inside chips, between chips of a board, between boards and so on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from simulator.collectives.groups import Groups
from simulator.collectives.offers import Flat, Jobs, cheapest, flat_offers

NAME = "hierarchical"
Tier = tuple[Groups, float]
"""Groups of a tier, and the bytes that it works on."""


@dataclass(frozen=True, eq=False)
class Tiers:
    """Tier by tier, one after the other."""

    tiers: tuple[Flat, ...]
    algorithm: str = NAME

    @property
    def phases(self) -> int:  # noqa: D102
        return sum(tier.phases for tier in self.tiers)

    @cached_property
    def alone_ps(self) -> int:  # noqa: D102
        return sum([tier.alone_ps for tier in self.tiers])

    def jobs(self) -> Jobs:  # noqa: D102
        return tuple(job for tier in self.tiers for job in tier.jobs())


def hierarchical(groups: Groups, collective: str, size_bytes: float) -> Tiers | str:
    """Each tier works on the pieces that the one before has left, in the cheapest flat way.

    Or why that does not apply: nodes do not have equally many members, or
    there is one tier only.
    """
    if collective == "all-to-all":
        return "hierarchical does not do all-to-all"
    tiers = _tiers(groups, collective == "broadcast")
    if tiers is None:
        return "hierarchical needs equally many members on every node"
    if len(tiers) < 2:
        return "hierarchical needs members on chips or boards with several each"
    order, left = [], size_bytes
    for tier in tiers:
        order.append((tier, left))
        left /= 1 if collective == "broadcast" else tier.size
    if collective == "all-reduce":
        below, top = order[:-1], order[-1:]
        offers = [
            *_every("reduce-scatter", below),
            *_every("all-reduce", top),
            *_every("all-gather", below[::-1]),
        ]
    else:
        offers = _every(collective, order if collective == "reduce-scatter" else order[::-1])
    return Tiers(tuple(offers))


def _every(collective: str, tiers: Sequence[Tier]) -> list[Flat]:
    return [cheapest(flat_offers(groups, collective, size)) for groups, size in tiers]


def _tiers(groups: Groups, first_only: bool) -> list[Groups] | None:
    """Groups of each tier, innermost first; with ``first_only``, one of each node goes on."""
    tiers: list[Groups] = []
    for level in range(len(groups.wires.units)):
        found = groups.apart(level, first_only=first_only)
        if found is None:
            return None
        inside, groups = found
        if inside.size > 1:
            tiers.append(inside)
    return [*tiers, groups] if groups.size > 1 else tiers
