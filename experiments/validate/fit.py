"""One constant fitted to measured steps: least squares of relative errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

LEAST, MOST = 0.01, 1.0
"""Efficiencies that make sense."""
_GRID = 60
_NARROWINGS = 60
_GOLDEN = (math.sqrt(5) - 1) / 2


def relative(predicted: float, measured: float) -> float:
    """The signed relative error of a prediction."""
    return predicted / measured - 1


def fit_efficiency(errors: Callable[[float], Sequence[float]]) -> float:
    """The efficiency within 0.01...1 with the least sum of squared ``errors``.

    A grid finds the valley and a golden-section search its bottom: errors only
    fall as the efficiency grows, but their squares may have several valleys.
    """

    def badness(efficiency: float) -> float:
        return sum(error * error for error in errors(efficiency))

    ratio = math.pow(MOST / LEAST, 1 / _GRID)
    grid = [min(MOST, LEAST * ratio**i) for i in range(_GRID + 1)]
    best = min(range(len(grid)), key=lambda i: badness(grid[i]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, _GRID)]
    for _ in range(_NARROWINGS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if badness(left) <= badness(right):
            high = right
        else:
            low = left
    return min(grid[best], (low + high) / 2, key=badness)
