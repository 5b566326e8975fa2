"""Where to cut a network so that its slowest stage is as fast as may be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from planners.errors import PlanError
from planners.sizing import Floats, Ints

MOST_TRIED = 1 << 20
"""Stages that are tried at a time: what bounds the memory."""


def balanced(
    seconds: Sequence[Sequence[float]],
    weighted: Sequence[bool],
    sends: Sequence[Floats] = (),
    sums: Sequence[Sequence[float]] = (),
) -> tuple[int, ...]:
    """The first layer of each stage: consecutive layers whose longest stage is shortest. Exact.

    ``seconds`` has a row for each stage: what each layer takes there. ``sends`` has two for each
    stage, of the layers and one more: what it takes to send back, and on, what crosses before
    each layer and at the end. A stage sends while it computes, and takes as long as the longer;
    ``sums`` come on top, a row for each stage. Every stage has a layer that is ``weighted``. Of
    equal cuts the earliest is taken. Nothing is cut where sends take for ever. Raises PlanError
    where there are more stages than such layers, or no cuts.

    Four layers of 1, 1, 2 and 4 s on two alike stages: 0 to 2 take 4 s, and so does 3.
    """
    layers, stages = len(weighted), len(seconds)
    many = np.concatenate([[0], np.cumsum(weighted)])
    if many[-1] < stages:
        raise PlanError(
            f"{stages} stages, but only {many[-1]} layers have weights; take fewer stages"
        )
    least: Floats = np.concatenate([[0.0], np.full(layers, np.inf)])
    came: list[Ints] = []
    sends, sums = sends or [np.zeros((2, layers + 1))] * stages, sums or [[0.0] * layers] * stages
    for row, sent, more in zip(seconds, sends, sums, strict=True):
        work, waits = (np.concatenate([[0.0], np.cumsum(each)]) for each in (row, more))
        begins, least = _stage(least, work, sent, waits, many)
        came.append(begins)
    if not np.isfinite(least[-1]):
        raise PlanError(f"{stages} stages, but nothing to be cut so often; take fewer stages")
    firsts, end = list[int](), layers
    for before in reversed(came):
        end = int(before[end])
        firsts.append(end)
    return tuple(reversed(firsts))


def _stage(
    least: Floats, work: Floats, sent: Floats, waits: Floats, many: Ints
) -> tuple[Ints, Floats]:
    """Where the next stage begins if it ends before each layer, and the longest stage then.

    ``least`` is the longest before it, by where it begins; ``work``, ``waits`` and ``many`` are
    the seconds, those that come on top, and the layers with weights before each layer.
    """
    ends = np.arange(len(work))
    found, best = np.zeros(len(work), dtype=np.int64), np.full(len(work), np.inf)
    possible = np.flatnonzero(np.isfinite(least))
    for some in np.array_split(possible, len(possible) * len(work) // MOST_TRIED + 1):
        if not len(some):
            continue
        first = some[:, np.newaxis]
        busy = np.maximum(work - work[first], sent[1] + sent[0, first])
        longest = np.maximum(least[first], busy + waits - waits[first])
        longest[many <= many[first]] = np.inf
        which = longest.argmin(axis=0)
        better = longest[which, ends] < best
        found[better], best[better] = some[which][better], longest[which, ends][better]
    return found, best
