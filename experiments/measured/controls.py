"""Predictions that know nothing: what a model of a machine has to beat.

``peak only`` takes the model's FLOPs at the chip's peak. ``constant share`` takes one share
of it for all rows, the one that fits the calibration rows best; ``share, recompute counted``
the same of the FLOPs with forward once more where everything is computed again.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping
from typing import NamedTuple

PEAK, SHARE, HARDWARE = "peak only", "constant share", "share, recompute counted"
CONTROLS = (PEAK, SHARE, HARDWARE)


class Work(NamedTuple):
    """A step's FLOPs of the model, those with recomputing, and FLOP/s of all chips together.

    Six for each multiply-accumulate of a forward pass; attention's are counted whole, causal
    or not.
    """

    model_flops: float
    hardware_flops: float
    peak_flops_per_s: float

    @property
    def at_peak_s(self) -> float:
        """Seconds of the model's FLOPs at peak."""
        return self.model_flops / self.peak_flops_per_s

    @property
    def with_recompute_s(self) -> float:
        """Seconds of all FLOPs at peak."""
        return self.hardware_flops / self.peak_flops_per_s


class Shares(NamedTuple):
    """The two fitted shares of peak."""

    model: float
    hardware: float


def fitted_shares(calibration: Iterable[tuple[Work, float]]) -> Shares:
    """Shares of peak with the median step right, of work and measured seconds.

    The median of logarithms: half of the rows are faster, half slower.
    """
    known = list(calibration)
    return Shares(
        _middle(work.at_peak_s / step_s for work, step_s in known),
        _middle(work.with_recompute_s / step_s for work, step_s in known),
    )


def _middle(shares: Iterable[float]) -> float:
    found = [math.log(share) for share in shares]
    return math.exp(statistics.median(found)) if found else 1.0


def controls(work: Work, shares: Shares) -> Mapping[str, float]:
    """Each control's seconds."""
    return {
        PEAK: work.at_peak_s,
        SHARE: work.at_peak_s / shares.model,
        HARDWARE: work.with_recompute_s / shares.hardware,
    }
