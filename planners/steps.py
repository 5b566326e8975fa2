"""Elimination over small tables, laid out once for all problems of one structure.

Tables of a few dozen entries are quicker as lists than as arrays. Which entries a
step adds up depends on the structure alone: every split of a plan, and every plan
of a network, asks for the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate, product
from operator import add, itemgetter
from typing import NamedTuple

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
