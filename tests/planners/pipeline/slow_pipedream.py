"""PipeDream's formulas, tried on every pipeline there is: slow, exact, and written apart."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations

INFINITE = Fraction(10**30)


@dataclass(frozen=True)
class Chain:
    """Layers in a row: seconds, output bytes, parameter bytes."""

    work: list[Fraction]
    outputs: list[Fraction]
    weights: list[Fraction]


def pipelines(first: int, last: int, machines: int) -> Iterator[list[tuple[int, int, int]]]:
    """Every way to give stretches of layers first...last all of some machines."""
    for stages in range(1, min(last - first + 1, machines) + 1):
        for cuts in combinations(range(first + 1, last + 1), stages - 1):
            edges = [first, *cuts, last + 1]
            for shares in combinations(range(1, machines), stages - 1):
                ends = [0, *shares, machines]
                yield [(edges[i], edges[i + 1] - 1, ends[i + 1] - ends[i]) for i in range(stages)]


def in_repo(
    chain: Chain, levels: list[tuple[int, Fraction]], ratio: Fraction | None, **rules: Fraction
) -> Fraction:
    """The released program's least time per minibatch."""
    return _least(chain, levels, 0, len(chain.work) - 1, "repo", ratio, rules)


def in_paper(
    chain: Chain, levels: list[tuple[int, Fraction]], ratio: Fraction | None, **rules: Fraction
) -> Fraction:
    """The paper's least time per minibatch."""
    return _least(chain, levels, 0, len(chain.work) - 1, "paper", ratio, rules)


def _least(
    chain: Chain,
    levels: list[tuple[int, Fraction]],
    first: int,
    last: int,
    model: str,
    ratio: Fraction | None,
    rules: dict[str, Fraction],
) -> Fraction:
    """On all machines of the last of some levels; none: on one device."""
    if not levels:
        return sum(chain.work[first : last + 1], Fraction(0))
    *inner, (machines, bandwidth) = levels
    join = inner[-1][0] if inner else 1
    best = INFINITE
    for stages in pipelines(first, last, machines):
        if "straight" in rules and any(replicas > 1 for _, _, replicas in stages):
            continue
        slowest = Fraction(0)
        used = 0
        for i, (a, b, r) in enumerate(stages):
            used += r
            unit = _least(chain, inner, a, b, model, ratio, rules)
            weights = sum(chain.weights[a : b + 1], Fraction(0))
            if "memory" in rules:
                outputs = sum(chain.outputs[a : b + 1], Fraction(0))
                if math.ceil(Fraction(machines - used, r)) * (weights + outputs) > rules["memory"]:
                    slowest = INFINITE
            crossing = []
            if model == "paper":
                exchange = 2 * Fraction(r - 1, r) * weights / bandwidth
                seconds = max(unit, exchange) / r
                if i:
                    crossing = [2 * chain.outputs[a - 1] / bandwidth / (ratio or 1)]
            else:
                g = join if i == 0 else 1
                seconds = (unit + 4 * Fraction(r - 1, r) * weights / (bandwidth * g)) / r
                if i and ratio:
                    crossing = [2 * chain.outputs[a - 1] / (bandwidth * r * ratio)]
                    if b < len(chain.work) - 1:
                        crossing.append(2 * chain.outputs[b] / (bandwidth * r * ratio))
            slowest = max([slowest, seconds, *crossing])
        best = min(best, slowest)
    return best
