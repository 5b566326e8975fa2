"""Where to cut a network so that its slowest stage is as fast as may be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planners.errors import PlanError
from planners.sizing import Floats, Ints

ROUNDING = 1e-12
"""Of a sum: less is what the order of adding changes."""


def balanced(seconds: Sequence[Sequence[float]], weighted: Sequence[bool]) -> tuple[int, ...]:
    """The first layer of each stage: consecutive layers whose longest stage is shortest. Exact.

    ``seconds`` has a row for each stage: what each layer takes there. Every
    stage has a layer that is ``weighted``. Of equal cuts the earliest is taken.
    Raises PlanError where there are more stages than such layers.

    Four layers of 1, 1, 2 and 4 s on two alike stages: 0 to 2 take 4 s, and so does 3.
    """
    layers, stages = len(weighted), len(seconds)
    many = np.concatenate([[0], np.cumsum(weighted)])
    if many[-1] < stages:
        raise PlanError(
            f"{stages} stages, but only {many[-1]} layers have weights; take fewer stages"
        )
    # the last layer that a stage may begin with whose end is before each layer
    latest = np.searchsorted(many, many, side="left") - 1
    least: Floats = np.concatenate([[0.0], np.full(layers, np.inf)])
    came: list[Ints] = []
    for row in seconds:
        behind = np.concatenate([[0.0], np.cumsum(row)])
        begins, least = _stage(least, behind, latest)
        came.append(begins)
    firsts, end = list[int](), layers
    for before in reversed(came):
        end = int(before[end])
        firsts.append(end)
    return tuple(reversed(firsts))


def _stage(least: Floats, behind: Floats, latest: Ints) -> tuple[Ints, Floats]:
    """Where the next stage begins if it ends before each layer, and the longest stage then."""
    first = int(np.argmax(np.isfinite(least)))
    number = np.arange(len(behind))
    if (least[first + 1 :] < least[first:-1] * (1 - ROUNDING)).any():  # unlike stages: try all
        tried = [number[first:, np.newaxis]]
    else:
        # the later it begins the shorter it is, and the longer may be those before it: best
        # is where both meet, or one layer before
        meet = np.searchsorted((least + behind)[first:], behind) + first
        last = np.maximum(latest, first)
        tried = [np.clip(at, first, last)[np.newaxis] for at in (meet - 1, meet)]
    found, best = np.zeros(len(behind), dtype=np.int64), np.full(len(behind), np.inf)
    for begins in tried:
        longest = np.maximum(least[begins], behind - behind[begins])
        longest = np.where(begins <= latest, longest, np.inf)
        which = longest.argmin(axis=0)
        least_of = longest[which, number]
        better = least_of < best
        found[better] = np.broadcast_to(begins, longest.shape)[which, number][better]
        best[better] = least_of[better]
    return found, best
