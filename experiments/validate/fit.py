"""One constant fitted to measured steps: least squares of relative errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence

LEAST, MOST = 0.01, 1.0
"""Efficiencies that make sense."""
_CLOSE = 1e-8
_MOST_STEPS = 60


def relative(predicted: float, measured: float) -> float:
    """The signed relative error of a prediction."""
    return predicted / measured - 1


def fit_efficiency(errors: Callable[[float], Sequence[float]]) -> float:
    """The efficiency within 0.01...1 with the least sum of squared ``errors``.

    In the time per byte, 1 / efficiency, predictions are convex and grow, and
    straight wherever no operator changes from computing to moving. So each
    step takes their chords as straight lines (Gauss-Newton); begun where
    everything moves, it comes down to a single row's root from one side. Each
    call of ``errors`` may be a simulation: there are about ten.
    """
    last, now = 1 / LEAST, 0.5 / LEAST
    before = errors(1 / last)
    for _ in range(_MOST_STEPS):
        found = errors(1 / now)
        slopes = [(b - a) / (now - last) for a, b in zip(before, found, strict=True)]
        steepness = sum(slope * slope for slope in slopes)
        if not steepness:
            break
        step = sum(e * slope for e, slope in zip(found, slopes, strict=True)) / steepness
        last, now, before = now, min(max(now - step, 1 / MOST), 1 / LEAST), found
        if abs(now - last) <= _CLOSE * now:
            break
    return 1 / now
