"""The global choice: from the best designs of each place's search, those that are best together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import fsum, prod
from typing import NamedTuple

from experiments.design.runs import Choice, Ran, Runs
from experiments.design.space import Design

MOST_TOGETHER = 64
"""Combinations of which all are run; of more, one place after the other is changed."""


class Sized(NamedTuple):
    """A design of a place: how slow its slowest core is, and what it costs (mm2, or W)."""

    slowness: float
    cost: float
    design: Design


def balanced(ranks: Sequence[Sequence[Sized]], counts: Sequence[int], top: int) -> list[Choice]:
    """The best for their cost, by what is slowest: of each place the cheapest that is no slower.

    Best is least slowness times cost of all ``counts`` chips of each place. Of places with
    designs of (1 s, 9 W), (3 s, 2 W) and (2 s, 3 W), (3 s, 1 W), one chip each: at 3 s they
    cost 3 W together, 9 J; at 2 s 12 W, 24 J; at 1 s there is none.
    """
    found: dict[Choice, float] = {}
    for limit in sorted({one.slowness for some in ranks for one in some}):
        each = [[one for one in some if one.slowness <= limit] for some in ranks]
        if not all(each):
            continue
        best = [min(some, key=lambda s: (s.cost, s.slowness, s.design)) for some in each]
        cost = fsum(many * one.cost for many, one in zip(counts, best, strict=True))
        designs = tuple(one.design for one in best)
        found.setdefault(designs, limit * cost)
    return sorted(found, key=lambda designs: (found[designs], designs))[:top]


def fastest(ranks: Sequence[Sequence[Sized]]) -> Choice:
    """Of each place the cheapest that is no slower than the slowest place's fastest."""
    limit = max(min(one.slowness for one in some) for some in ranks)
    each = ([one for one in some if one.slowness <= limit] for some in ranks)
    return tuple(min(some, key=lambda s: (s.cost, s.slowness, s.design)).design for some in each)


def choose(
    runs: Runs,
    for_all: Sequence[Design],
    of_ranks: Sequence[Sequence[Design]],
    others: Sequence[Choice] = (),
) -> list[Ran]:
    """All that were run, the best first: one design for all, and one of each place's for it.

    Of few combinations all are run. Of more, from each place's first design on, one place at
    a time takes what is best for it while the rest stays, until nothing changes; ``others``
    are run, too. Of equal ones that with less area comes first, then one design for all.
    """
    found: dict[Choice, Ran] = {(design,): runs.ran((design,)) for design in for_all}
    found |= {designs: runs.ran(designs) for designs in others}
    if of_ranks and prod(map(len, of_ranks)) <= MOST_TOGETHER:
        for designs in product(*of_ranks):
            found[designs] = runs.ran(designs)
    elif of_ranks:
        best = runs.ran(tuple(some[0] for some in of_ranks))
        changed = True
        while changed:
            changed = False
            for rank, some in enumerate(of_ranks):
                for design in some:
                    designs = (*best.designs[:rank], design, *best.designs[rank + 1 :])
                    ran = found[designs] = runs.ran(designs)
                    if ran.value > best.value:
                        best, changed = ran, True
    ranked = (ran for ran in found.values() if len(ran.designs) == 1 or len(set(ran.designs)) > 1)
    return sorted(ranked, key=lambda r: (-r.value, r.area_mm2, len(r.designs), r.designs))
