"""Exact min-sum optimisation over a graph of small discrete choices.

The recurrence of the AccPar paper on a chain, and variable
elimination (Bertele and Brioschi 1972) on any graph: repeatedly minimise one
variable out of the factors that mention it, then read the choices back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
WIDEST = 12
"""Most variables one intermediate table may span (3^12 entries are 4 MB)."""


class TooWideError(ValueError):
    """The graph has no elimination order narrow enough for an exact answer."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A cost that depends on the variables in ``scope``; one table axis each."""

    scope: tuple[int, ...]
    table: Table


def minimise(domains: Sequence[int], factors: Sequence[Factor]) -> tuple[float, list[int]]:
    """The least sum of factors, and the choice of every variable that attains it.

    ``domains[i]`` is the number of values of variable i. Variables go in
    min-fill order, the lowest index first among equals: on a chain that is
    front to back. A variable takes its lowest optimal value once those
    eliminated after it are fixed, so on a chain ties give the lowest sequence
    read from the last variable to the first. Raises TooWideError.
    """
    pending = list(factors)
    decisions: list[tuple[int, tuple[int, ...], NDArray[np.intp]]] = []
    total = 0.0
    for variable in elimination_order(len(domains), tuple(factor.scope for factor in factors)):
        touching = [factor for factor in pending if variable in factor.scope]
        pending = [factor for factor in pending if variable not in factor.scope]
        scope = tuple(sorted({v for factor in touching for v in factor.scope} - {variable}))
        joined = _sum(touching, (*scope, variable), domains)
        decisions.append((variable, scope, joined.argmin(axis=-1)))
        best = joined.min(axis=-1)
        if scope:
            pending.append(Factor(scope, best))
        else:
            total += float(best)
    choice = [0] * len(domains)
    for variable, scope, argmin in reversed(decisions):
        choice[variable] = int(argmin[tuple(choice[v] for v in scope)])
    return total, choice


def _sum(factors: Sequence[Factor], axes: tuple[int, ...], domains: Sequence[int]) -> Table:
    """Add tables over a common set of axes, in the order given."""
    position = {variable: i for i, variable in enumerate(axes)}
    total: Any = np.zeros([domains[variable] for variable in axes])
    for factor in factors:
        shape = [1] * len(axes)
        for variable, size in zip(factor.scope, factor.table.shape, strict=True):
            shape[position[variable]] = size
        order = sorted(range(len(factor.scope)), key=lambda i: position[factor.scope[i]])
        total = total + factor.table.transpose(order).reshape(shape)
    return np.asarray(total, dtype=np.float64)


@lru_cache(maxsize=16)
def elimination_order(variables: int, scopes: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Greedy min-fill order, lowest index first among equals (every split asks for the same)."""
    near: list[set[int]] = [set() for _ in range(variables)]
    for scope in scopes:
        for variable in scope:
            near[variable].update(scope)
    for variable, neighbours in enumerate(near):
        neighbours.discard(variable)
    fill = {variable: _fill(near, variable) for variable in range(variables)}
    order: list[int] = []
    while fill:
        variable = min(fill, key=lambda v: (fill[v], v))
        neighbours = near[variable]
        if len(neighbours) >= WIDEST:
            raise TooWideError(f"elimination needs a table over {len(neighbours) + 1} layers")
        changed = set(neighbours)
        for other in neighbours:
            near[other] |= neighbours
            near[other] -= {other, variable}
            changed |= near[other]
        order.append(variable)
        del fill[variable]
        for other in changed & fill.keys():
            fill[other] = _fill(near, other)
    return tuple(order)


def _fill(near: list[set[int]], variable: int) -> int:
    """Edges that eliminating the variable would add."""
    neighbours = near[variable]
    return sum(len(neighbours - near[other]) - 1 for other in neighbours) // 2
