"""Intervals of time: their union, and how long it is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.engine.jobs import Ints

Interval = tuple[int, int]
"""Start and end in picoseconds."""


def covered_ps(starts: Ints, ends: Ints) -> int:
    """Picoseconds in the union of intervals."""
    if not len(starts):
        return 0
    order = np.argsort(starts, kind="stable")
    reached = np.maximum.accumulate(ends[order])
    begins = np.maximum(starts[order], np.concatenate([starts[order][:1], reached[:-1]]))
    return int(np.maximum(reached - begins, 0).sum())


def merged(intervals: Sequence[Interval]) -> list[Interval]:
    """The union of intervals, as disjoint ones in order."""
    union: list[Interval] = []
    for start, end in sorted(intervals):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return union
