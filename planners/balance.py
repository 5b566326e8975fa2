"""Where to cut a network so that its slowest stage is as fast as may be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from planners.errors import PlanError

Floats = NDArray[np.float64]


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
    least: Floats = np.full(layers + 1, np.inf)
    least[0] = 0.0
    came: list[NDArray[np.int64]] = []
    for row in seconds:
        behind = np.concatenate([[0.0], np.cumsum(row)])
        # from layer i (a row) to before layer j (a column); later stages need their layers, too
        span = behind[np.newaxis, :] - behind[:, np.newaxis]
        span[many[np.newaxis, :] <= many[:, np.newaxis]] = np.inf
        longest = np.maximum(least[:, np.newaxis], span)
        came.append(longest.argmin(axis=0))
        least = longest.min(axis=0)
    firsts, end = list[int](), layers
    for before in reversed(came):
        end = int(before[end])
        firsts.append(end)
    return tuple(reversed(firsts))
