"""Exact min-sum optimisation over a graph of small discrete choices.

The recurrence of the AccPar paper on a chain, and variable
elimination (Bertele and Brioschi 1972) on any graph: repeatedly minimise one
variable out of the factors that mention it, then read the choices back.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, product
from operator import add, itemgetter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Table = NDArray[np.float64]
LARGEST = 3**12
"""Most entries of one intermediate table: 4 MB."""
AT_HAND = 1 << 15
"""Entries that are added up and gone through at a time: 256 KB, which second-level caches hold."""
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
    entries = [np.zeros(0), *(factor.table.ravel() for factor in factors)]
    scopes = tuple(factor.scope for factor in factors)
    return minimise_entries(tuple(domains), scopes, np.concatenate(entries), largest)


def minimise_entries(
    domains: tuple[int, ...],
    scopes: tuple[tuple[int, ...], ...],
    entries: NDArray[np.float64],
    largest: int = LARGEST,
) -> tuple[float, list[int]]:
    """``minimise`` for tables over ``scopes``, whose entries lie one after the other."""
    # Of a chain a - b - c: a goes first, leaving the least of ab for every b; b goes
    # next, leaving the least of that + bc for every c. c is then chosen, then b, then a.
    order = elimination_order(domains, scopes, largest)
    steps = steps_of(order, domains, scopes)
    if steps is not None:
        return follow(steps, entries.tolist(), len(domains))
    pending = Pending(len(domains), factors_of(domains, scopes, entries))
    decisions: list[tuple[int, tuple[int, ...], NDArray[np.intp]]] = []
    total = 0.0
    for variable in order:
        scope = tuple(sorted(pending.neighbours(variable)))
        best, argmin = _least(pending.take(variable), (*scope, variable), domains)
        decisions.append((variable, scope, argmin))
        if scope:
            pending.add(Factor(scope, best))
        else:
            total += float(best)
    choice = [0] * len(domains)
    for variable, scope, argmin in reversed(decisions):
        choice[variable] = int(argmin[tuple(choice[v] for v in scope)])
    return total, choice


def factors_of(
    domains: Sequence[int],
    scopes: Sequence[tuple[int, ...]],
    entries: NDArray[np.float64],
) -> list[Factor]:
    """The tables whose entries lie one after the other, as factors."""
    shapes = [tuple(domains[v] for v in scope) for scope in scopes]
    ends = np.cumsum([math.prod(shape) for shape in shapes]).tolist()
    parts = zip(scopes, shapes, [0, *ends], ends, strict=False)
    return [Factor(scope, entries[a:b].reshape(shape)) for scope, shape, a, b in parts]


def _least(
    factors: Sequence[Factor], axes: tuple[int, ...], domains: Sequence[int]
) -> tuple[Table, NDArray[np.intp]]:
    """The least of a sum of tables over its last axis, and where it is, by the others.

    So many rows of the first axis at a time as a processor keeps at hand: of 64 x 64 x 64
    entries eight.
    """
    whole, first = math.prod(domains[v] for v in axes), axes[0]
    many = domains[first] if len(axes) == 1 else max(1, AT_HAND * domains[first] // whole)
    best, places = list[Table](), list[NDArray[np.intp]]()
    for start in range(0, domains[first], many):
        rows = slice(start, start + many)
        sums = add_tables([_some(factor, first, rows) for factor in factors], axes, domains, rows)
        place = sums.argmin(axis=-1)
        places.append(place)
        best.append(np.take_along_axis(sums, place[..., np.newaxis], axis=-1)[..., 0])
    if len(best) == 1:
        return best[0], places[0]
    return np.concatenate(best), np.concatenate(places)


def _some(factor: Factor, variable: int, values: slice) -> Factor:
    """A factor for some values of a variable, if it mentions it."""
    if variable not in factor.scope:
        return factor
    axis = factor.scope.index(variable)
    return Factor(factor.scope, factor.table[(slice(None),) * axis + (values,)])


def add_tables(
    factors: Sequence[Factor],
    axes: tuple[int, ...],
    domains: Sequence[int],
    rows: slice = slice(None),
) -> Table:
    """Add tables over a common set of axes, in the order given; of the first axis some ``rows``."""
    position = {variable: i for i, variable in enumerate(axes)}
    sizes = [domains[variable] for variable in axes]
    sizes[:1] = [len(range(sizes[0])[rows])]
    total = np.zeros(sizes)
    for factor in factors:
        shape = [1] * len(axes)
        for variable, size in zip(factor.scope, factor.table.shape, strict=True):
            shape[position[variable]] = size
        order = sorted(range(len(factor.scope)), key=lambda i: position[factor.scope[i]])
        total += factor.table.transpose(order).reshape(shape)
    return total


@lru_cache(maxsize=64)
def elimination_order(
    domains: tuple[int, ...], scopes: tuple[tuple[int, ...], ...], largest: int = LARGEST
) -> tuple[int, ...]:
    """Greedy min-fill order, lowest index first among equals (every split asks for the same)."""
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


NARROW = 3**5
"""Most entries of one table."""


Operand = Callable[[list[float]], Sequence[float]]


class Step(NamedTuple):
    """One variable goes: it takes its best value for every combination of its neighbours'.

    ``operands`` are the tables to add up: each picks, of all entries so far, its own for
    every entry of the sum, in which the variable's ``values`` are the fastest. ``scope``
    has the neighbours with their strides there.
    """

    variable: int
    values: int
    operands: tuple[Operand, ...]
    scope: tuple[tuple[int, int], ...]


@lru_cache(maxsize=64)
def steps_of(
    order: tuple[int, ...], domains: tuple[int, ...], scopes: tuple[tuple[int, ...], ...]
) -> tuple[Step, ...] | None:
    """The steps in this order; None where a table is not ``NARROW``.

    Entries of the given tables come first, one table after the other; then what the
    steps leave, one step after the other.
    """
    of: list[dict[int, int]] = [{} for _ in domains]
    tables = list(scopes)
    starts = [0, *accumulate(math.prod(domains[v] for v in scope) for scope in scopes)]
    for number, scope in enumerate(tables):
        for v in scope:
            of[v][number] = starts[number]
    steps = list[Step]()
    for variable in order:
        taken = of[variable]
        scope = tuple(sorted({v for number in taken for v in tables[number]} - {variable}))
        axes = (*scope, variable)
        shape = tuple(domains[v] for v in axes)
        entries = math.prod(shape)
        if entries > NARROW:
            return None
        operands = tuple(
            _picked(start, tuple(axes.index(v) for v in tables[number]), shape)
            for number, start in taken.items()
        )
        strides = zip(axes[:-1], _strides(shape)[:-1], strict=True)
        steps.append(Step(variable, domains[variable], operands, tuple(strides)))
        for number in list(taken):
            for v in tables[number]:
                del of[v][number]
        for v in scope:
            of[v][len(tables)] = starts[-1]
        tables.append(scope)
        starts.append(starts[-1] + entries // domains[variable])
    return tuple(steps)


def _picked(start: int, at: tuple[int, ...], shape: tuple[int, ...]) -> Operand:
    """What a table that starts there, of these axes of a sum of that shape, adds to each entry."""
    places = _offsets(at, shape)
    if places == tuple(range(len(places))):
        return itemgetter(slice(start, start + len(places)))
    return itemgetter(*(start + place for place in places))


@lru_cache(maxsize=1 << 10)
def _offsets(at: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = _strides(tuple(shape[axis] for axis in at))
    return tuple(
        sum(values[axis] * stride for axis, stride in zip(at, strides, strict=True))
        for values in product(*map(range, shape))
    )


def _strides(shape: tuple[int, ...]) -> list[int]:
    return [math.prod(shape[i + 1 :]) for i in range(len(shape))]


def follow(steps: Sequence[Step], entries: list[float], variables: int) -> tuple[float, list[int]]:
    """The least sum, and the choice of every variable; ``entries`` grows by what steps leave."""
    total, sums = 0.0, list[Sequence[float]]()
    for step in steps:
        values = step.values
        joined = step.operands[0](entries) if step.operands else [0.0] * values
        for operand in step.operands[1:]:
            joined = [*map(add, joined, operand(entries))]
        sums.append(joined)
        if values > 1:
            joined = [*map(min, *[iter(joined)] * values)]  # of as many at a time
        entries += joined
        if not step.scope:
            total += joined[0]
    choice = [0] * variables
    for step, joined in zip(reversed(steps), reversed(sums), strict=True):
        if step.values > 1:
            start = sum([choice[v] * stride for v, stride in step.scope])
            costs = joined[start : start + step.values]
            choice[step.variable] = costs.index(min(costs))
    return total, choice
