"""Intervals of time: their union, and how long it is."""

from __future__ import annotations

import numpy as np

from simulator.engine.jobs import Ints


def covered_ps(starts: Ints, ends: Ints) -> int:
    """Picoseconds in the union of intervals."""
    if not len(starts):
        return 0
    order = np.argsort(starts, kind="stable")
    reached = np.maximum.accumulate(ends[order])
    begins = np.maximum(starts[order], np.concatenate([starts[order][:1], reached[:-1]]))
    return int(np.maximum(reached - begins, 0).sum())


class Union:
    """The union of intervals, to be asked how much of it is before a time."""

    def __init__(self, starts: Ints, ends: Ints) -> None:
        order = np.argsort(starts, kind="stable")
        starts, reached = starts[order], np.maximum.accumulate(ends[order])
        first = np.append(True, starts[1:] > reached[:-1])[: len(starts)]
        self._starts = starts[first]
        self._lengths = reached[np.append(first[1:], True)[: len(starts)]] - self._starts
        self._before = np.cumsum(self._lengths) - self._lengths

    def before(self, times: Ints) -> Ints:
        """Picoseconds of the union before each of ``times``."""
        if not len(self._starts):
            return np.zeros_like(times)
        place = np.searchsorted(self._starts, times, side="right") - 1
        within = np.clip(times - self._starts[place], 0, self._lengths[place])
        found: Ints = np.where(place < 0, 0, self._before[place] + within)
        return found
