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
from typing import NamedTuple

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
    elimination = Elimination(tuple(domains), [factor.scope for factor in factors], largest)
    return elimination.follow([factor.table for factor in factors])


class Step(NamedTuple):
    """One variable goes: the least of a sum of tables, for each choice of its neighbours.

    ``operands`` are those tables: number, order of axes, and shape in the sum, whose last
    axis is the variable's and whose others, ``scope``, are its neighbours'.
    """

    variable: int
    scope: tuple[int, ...]
    shape: tuple[int, ...]
    operands: list[tuple[int, tuple[int, ...], tuple[int, ...]]]


class Elimination:
    """The steps of ``minimise`` for tables over ``scopes``, whatever their entries are.

    Of a chain a - b - c: a goes first, leaving the least of ab for every b; b goes
    next, leaving the least of that + bc for every c. c is then chosen, then b, then a.
    """

    def __init__(
        self,
        domains: tuple[int, ...],
        scopes: Sequence[tuple[int, ...]],
        largest: int = LARGEST,
    ) -> None:
        self.domains, self.scopes = domains, scopes
        self.steps: list[Step] = []
        tables = [*scopes]
        of: list[dict[int, None]] = [{} for _ in domains]  # tables by variable, oldest first
        for number, scope in enumerate(tables):
            for v in scope:
                of[v][number] = None
        for variable in elimination_order(domains, scopes, largest):
            taken = [*of[variable]]
            scope = tuple(sorted({v for number in taken for v in tables[number]} - {variable}))
            axes = (*scope, variable)
            operands = [(number, *_aligned(tables[number], axes, domains)) for number in taken]
            self.steps.append(Step(variable, scope, tuple(domains[v] for v in axes), operands))
            for number in taken:
                for v in tables[number]:
                    del of[v][number]
            for v in scope:
                of[v][len(tables)] = None
            tables.append(scope)

    def minimise(self, entries: Table) -> tuple[float, list[int]]:
        """The least sum of tables whose entries lie one after the other."""
        return self.follow([f.table for f in factors_of(self.domains, self.scopes, entries)])

    def follow(self, tables: list[Table]) -> tuple[float, list[int]]:
        """The least sum of the tables, and the choice of every variable; appends to them."""
        total, decisions = 0.0, list[NDArray[np.intp]]()
        for _, scope, shape, operands in self.steps:
            sums = np.zeros(shape)
            for number, order, aligned in operands:
                sums += tables[number].transpose(order).reshape(aligned)
            decisions.append(sums.argmin(axis=-1))
            tables.append(sums.min(axis=-1))
            if not scope:
                total += float(tables[-1])
        choice = [0] * len(self.domains)
        for step, best in zip(reversed(self.steps), reversed(decisions), strict=True):
            choice[step.variable] = int(best[tuple([choice[v] for v in step.scope])])
        return total, choice


def _aligned(
    scope: tuple[int, ...], axes: tuple[int, ...], domains: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The order of a table's axes, and its shape, as an operand of a sum over ``axes``."""
    order = sorted(range(len(scope)), key=lambda i: axes.index(scope[i]))
    return tuple(order), tuple(domains[v] if v in scope else 1 for v in axes)


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
        order, shape = _aligned(factor.scope, axes, domains)
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
