"""A choice and a lower bound where a graph is too wide for an exact answer.

Lower bound: mini-bucket elimination with matched min-marginals (Dechter and
Rish 2003; Ihler et al. 2012): where eliminating a variable would join factors
over too many others, they are joined in groups, each minimised by itself,
which can only lower the sum. Upper bound: the choice read back from those
groups. Neither depends on the speed of the machine.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from planners.hierarchy.min_sum import Factor, Pending, add_tables

SPAN = 3**9
"""Most entries of the table of one group."""


def bounded(
    domains: Sequence[int], factors: Sequence[Factor], span: int = SPAN
) -> tuple[float, list[int], float]:
    """What a good choice of every variable costs, the choice, and a bound that none undercuts.

    ``domains[i]`` is the number of values of variable i. The variable with the fewest
    neighbours goes next, the lowest index first among equals; factors are grouped first fit,
    the widest first. Deterministic.
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
    choice = _read_back(domains, decided)
    cost = math.fsum(f.table[tuple(choice[v] for v in f.scope)] for f in factors)
    return cost, choice, min(lower, cost)


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
        wanted = set(factor.scope)
        room = (b for b in bins if math.prod(domains[v] for v in b[0] | wanted) <= span)
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


def _read_back(domains: Sequence[int], decided: list[tuple[int, list[Factor]]]) -> list[int]:
    choice = [0] * len(domains)
    for variable, groups in reversed(decided):
        costs = np.zeros(domains[variable])
        for group in groups:
            costs += group.table[tuple(choice[v] for v in group.scope[:-1])]
        choice[variable] = int(costs.argmin())
    return choice
