"""A choice and a lower bound where a graph is too wide for an exact answer.

Lower bound: mini-bucket elimination with matched min-marginals (Dechter and
Rish 2003; Ihler et al. 2012): where eliminating a variable would join factors
over too many others, they are joined in groups, each minimised by itself,
which can only lower the sum. Upper bound: the choice read back from those
groups, improved by solving narrow sets of variables again, exactly, with the
others held (block coordinate descent). Both are bounded by counted work, not
by a clock, so the answer does not depend on the machine.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from planners.hierarchy.min_sum import (
    Factor,
    Pending,
    TooWideError,
    add_tables,
    adjacency,
    elimination_order,
    minimise,
)

SPAN = 3**9
"""Most entries of the table of one group."""
BLOCK = 48
"""Variables solved again together, where they are narrow enough."""
NARROW = 4**8
"""Most entries of a table in such a block."""
WORK = 150_000
"""Most factors handled in improving one choice: one to two seconds."""
PATIENCE = 5
"""Rounds without any gain after which improving stops."""


@dataclass(frozen=True, slots=True)
class Bounded:
    """A choice, what it costs, and a bound below which no choice can cost."""

    cost: float
    lower: float
    choice: list[int]


def bounded(domains: Sequence[int], factors: Sequence[Factor]) -> Bounded:
    """A good choice of every variable, with a lower bound on the least sum of factors.

    ``domains[i]`` is the number of values of variable i. Deterministic.
    """
    lower, choice = mini_buckets(domains, factors)
    cost, choice = improve(domains, factors, choice)
    return Bounded(cost, min(lower, cost), choice)


def mini_buckets(
    domains: Sequence[int], factors: Sequence[Factor], span: int = SPAN
) -> tuple[float, list[int]]:
    """A lower bound on the least sum, and the choice read back from it.

    The variable with the fewest neighbours goes next, the lowest index first
    among equals; factors are grouped first fit, the widest first.
    """
    pending = Pending(len(domains), factors)
    near = {v: pending.neighbours(v) for v in range(len(domains))}
    decided: list[tuple[int, list[Factor]]] = []
    lower = 0.0
    while near:
        variable = min(near, key=lambda v: (len(near[v]), v))
        touched = near.pop(variable)
        groups = _groups(variable, pending.take(variable), domains, span)
        decided.append((variable, groups))
        for group in groups:
            message = group.table.min(axis=-1)
            if len(group.scope) > 1:
                pending.add(Factor(group.scope[:-1], message))
            else:
                lower += float(message)
        for other in touched:
            near[other] = pending.neighbours(other)
    return lower, _read_back(domains, decided)


def _groups(
    variable: int, factors: list[Factor], domains: Sequence[int], span: int
) -> list[Factor]:
    """Factors joined up to ``span`` entries, the eliminated one last, its marginals matched.

    A group may choose another value of the variable than its neighbours, which
    is what makes the bound low. Matching lets their least costs for each value
    agree: what one group charges above the mean is taken from it and given to
    the others, which changes no sum. Two groups that charge values 0 and 1

        (4, 0) and (0, 6): apart min 0 + min 0 = 0; the mean is (2, 3), so
        (2, 3) and (2, 3): apart min 2 + min 2 = 4, which is the least sum
    """
    bins: list[tuple[set[int], list[Factor]]] = []
    for factor in sorted(factors, key=lambda f: (-len(f.scope), f.scope)):
        room = (b for b in bins if _entries(b[0].union(factor.scope), domains) <= span)
        scope, members = next(room, (set[int](), list[Factor]()))
        if not members:
            bins.append((scope, members))
        scope.update(factor.scope)
        members.append(factor)
    axes = [(*sorted(scope - {variable}), variable) for scope, _ in bins]
    joined = [add_tables(m, a, domains) for (_, m), a in zip(bins, axes, strict=True)]
    marginals = [table.min(axis=tuple(range(table.ndim - 1))) for table in joined]
    mean = sum(marginals, np.zeros(domains[variable])) / max(1, len(joined))
    return [
        Factor(axis, table - marginal + mean)
        for axis, table, marginal in zip(axes, joined, marginals, strict=True)
    ]


def _entries(scope: set[int], domains: Sequence[int]) -> int:
    return math.prod(domains[v] for v in scope)


def _read_back(domains: Sequence[int], decided: list[tuple[int, list[Factor]]]) -> list[int]:
    choice = [0] * len(domains)
    for variable, groups in reversed(decided):
        costs = np.zeros(domains[variable])
        for group in groups:
            costs += group.table[tuple(choice[v] for v in group.scope[:-1])]
        choice[variable] = int(costs.argmin())
    return choice


def improve(
    domains: Sequence[int], factors: Sequence[Factor], choice: Sequence[int], work: int = WORK
) -> tuple[float, list[int]]:
    """The cost of a choice, and the choice, after blocks were solved again one by one.

    Stops when PATIENCE rounds help nowhere, or after ``work`` factors.
    """
    best = list(choice)
    near = adjacency(len(domains), (factor.scope for factor in factors))
    of: list[list[int]] = [[] for _ in domains]
    for number, factor in enumerate(factors):
        for variable in factor.scope:
            of[variable].append(number)
    shuffled = random.Random(0)  # noqa: S311  (the same blocks in every run)
    idle = 0
    while idle < PATIENCE and work > 0:
        idle += 1
        for block in _blocks(near, domains, shuffled):
            touched = [factors[i] for i in sorted({i for v in block for i in of[v]})]
            tried = _solve(domains, touched, best, block)
            gain = _cost(touched, best) - _cost(touched, tried)
            if gain > 1e-12 * _cost(touched, best):
                best, idle = tried, 0
            work -= len(touched) + len(block)
            if work <= 0:
                break
    return _cost(factors, best), best


def _cost(factors: Sequence[Factor], choice: Sequence[int]) -> float:
    return math.fsum(f.table[tuple(choice[v] for v in f.scope)] for f in factors)


def _blocks(
    near: list[set[int]], domains: Sequence[int], shuffled: random.Random
) -> Iterator[list[int]]:
    """Narrow sets of near variables that together cover all, from new starts in every round."""
    left = dict.fromkeys(shuffled.sample(range(len(near)), len(near)))
    while left:
        block = _ball(near, next(iter(left)), shuffled)
        while not _narrow(near, domains, block):
            block = block[: len(block) // 2]
        yield block
        for variable in block:
            left.pop(variable, None)


def _ball(near: list[set[int]], start: int, shuffled: random.Random) -> list[int]:
    """The BLOCK variables nearest to one, those equally near in any order."""
    ball, seen = [start], {start}
    for variable in ball:  # grows as it goes
        others = sorted(near[variable] - seen)
        ball += shuffled.sample(others, len(others))
        seen.update(others)
        if len(ball) >= BLOCK:
            break
    return ball[:BLOCK]


def _narrow(near: list[set[int]], domains: Sequence[int], block: list[int]) -> bool:
    """Whether elimination of a block alone never needs a table over NARROW entries."""
    place = {variable: i for i, variable in enumerate(block)}
    pairs = ((i, place[v]) for i, u in enumerate(block) for v in sorted(near[u]) if v in place)
    try:
        elimination_order(tuple(domains[v] for v in block), [*pairs], NARROW)
    except TooWideError:
        return False
    return True


def _solve(
    domains: Sequence[int], factors: Sequence[Factor], choice: Sequence[int], block: list[int]
) -> list[int]:
    """The best choice for a block where every other variable keeps its value."""
    place = {variable: i for i, variable in enumerate(block)}
    local = [
        Factor(
            tuple(place[v] for v in factor.scope if v in place),
            factor.table[tuple(slice(None) if v in place else choice[v] for v in factor.scope)],
        )
        for factor in factors
    ]
    _, picks = minimise([domains[v] for v in block], local, NARROW)
    solved = list(choice)
    for variable, pick in zip(block, picks, strict=True):
        solved[variable] = pick
    return solved
