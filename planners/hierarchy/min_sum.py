"""Exact min-sum optimisation over a graph of small discrete choices.

The recurrence of the AccPar paper on a chain, and variable
elimination (Bertele and Brioschi 1972) on any graph: repeatedly minimise one
variable out of the factors that mention it, then read the choices back.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
LARGEST = 3**12
"""Most entries of one intermediate table: 4 MB."""
_AXES = 30
"""Most variables one table may span, be their values ever so few."""


class TooWideError(ValueError):
    """The graph has no elimination order narrow enough for an exact answer."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A cost that depends on the variables in ``scope``; one table axis each."""

    scope: tuple[int, ...]
    table: Table


class Pending:
    """Factors not yet eliminated, found by the variables they mention, oldest first."""

    def __init__(self, variables: int, factors: Iterable[Factor]) -> None:
        self._of: list[dict[int, Factor]] = [{} for _ in range(variables)]
        self._added = 0
        for factor in factors:
            self.add(factor)

    def add(self, factor: Factor) -> None:
        """One more factor."""
        for variable in factor.scope:
            self._of[variable][self._added] = factor
        self._added += 1

    def take(self, variable: int) -> list[Factor]:
        """The factors that mention a variable, which are removed."""
        taken = list(self._of[variable].items())
        for number, factor in taken:
            for other in factor.scope:
                del self._of[other][number]
        return [factor for _, factor in taken]

    def neighbours(self, variable: int) -> set[int]:
        """The other variables that share a factor with one."""
        return {v for f in self._of[variable].values() for v in f.scope} - {variable}


def minimise(
    domains: Sequence[int], factors: Sequence[Factor], largest: int = LARGEST
) -> tuple[float, list[int]]:
    """The least sum of factors, and the choice of every variable that attains it.

    ``domains[i]`` is the number of values of variable i. Variables go in
    min-fill order, the lowest index first among equals: on a chain that is
    front to back. A variable takes its lowest optimal value once those
    eliminated after it are fixed, so on a chain ties give the lowest sequence
    read from the last variable to the first. Raises TooWideError where a
    table would have more than ``largest`` entries.
    """
    order = elimination_order(tuple(domains), [factor.scope for factor in factors], largest)
    pending, total = Pending(len(domains), factors), 0.0
    decisions: list[tuple[int, tuple[int, ...], NDArray[np.intp]]] = []
    for variable in order:
        taken = pending.take(variable)
        scope = tuple(sorted({v for factor in taken for v in factor.scope} - {variable}))
        sums = add_tables(taken, (*scope, variable), domains)
        decisions.append((variable, scope, sums.argmin(axis=-1)))
        if scope:
            pending.add(Factor(scope, sums.min(axis=-1)))
        else:
            total += float(sums.min(axis=-1))
    choice = [0] * len(domains)
    for variable, scope, best in reversed(decisions):
        choice[variable] = int(best[tuple([choice[v] for v in scope])])
    return total, choice


def factors_of(
    domains: Sequence[int], scopes: Sequence[tuple[int, ...]], entries: Table
) -> list[Factor]:
    """The tables whose entries lie one after the other, as factors."""
    shapes = [tuple([domains[v] for v in scope]) for scope in scopes]
    ends = [*accumulate(map(math.prod, shapes))]
    parts = zip(scopes, shapes, [0, *ends], ends, strict=False)
    return [Factor(scope, entries[a:b].reshape(shape)) for scope, shape, a, b in parts]


def add_tables(factors: Sequence[Factor], axes: tuple[int, ...], domains: Sequence[int]) -> Table:
    """The sum of tables over a common set of axes, added in the order given."""
    total = np.zeros([domains[variable] for variable in axes])
    for factor in factors:
        order = sorted(range(len(factor.scope)), key=lambda i: axes.index(factor.scope[i]))
        shape = [domains[v] if v in factor.scope else 1 for v in axes]
        total += factor.table.transpose(order).reshape(shape)
    return total


def elimination_order(
    domains: tuple[int, ...], scopes: Sequence[tuple[int, ...]], largest: int = LARGEST
) -> tuple[int, ...]:
    """Greedy min-fill order, lowest index first among equals."""
    near = adjacency(len(domains), scopes)
    fill = {v: _fill(near, v, domains, largest) for v in range(len(domains))}
    queue = [(edges, variable) for variable, edges in fill.items()]
    heapq.heapify(queue)
    order: list[int] = []
    while fill:
        edges, variable = heapq.heappop(queue)
        if fill.get(variable) != edges:
            continue  # eliminated, or queued again since with what it would add now
        neighbours = near[variable]
        if edges == _NEVER:
            raise TooWideError(f"elimination needs a table over {len(neighbours) + 1} layers")
        changed = set(neighbours)
        for other in neighbours:
            near[other] |= neighbours
            near[other] -= {other, variable}
            if edges:
                changed |= near[other]
        order.append(variable)
        del fill[variable]
        for other in changed & fill.keys():
            fill[other] = _fill(near, other, domains, largest)
            heapq.heappush(queue, (fill[other], other))
    return tuple(order)


def adjacency(variables: int, scopes: Iterable[tuple[int, ...]]) -> list[set[int]]:
    """Per variable, the others with which it shares a factor."""
    near: list[set[int]] = [set() for _ in range(variables)]
    for scope in scopes:
        for variable in scope:
            near[variable].update(scope)
    for variable, neighbours in enumerate(near):
        neighbours.discard(variable)
    return near


_NEVER = 1 << 60


def _fill(near: list[set[int]], variable: int, domains: Sequence[int], largest: int) -> int:
    """Edges that eliminating the variable would add; _NEVER where its table is too large."""
    neighbours = near[variable]
    degree = len(neighbours)
    if degree >= _AXES or math.prod(domains[v] for v in neighbours) * domains[variable] > largest:
        return _NEVER
    return sum(degree - 1 - len(neighbours & near[other]) for other in neighbours) // 2
