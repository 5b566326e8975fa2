"""The steady time between two micro-batches of a program that repeats itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.engine.timeline import Period, Timeline

LEAST_REPEATS = 3
"""A period is called steady when it is seen so many times."""


def micro_batch_ends(timeline: Timeline) -> list[int]:
    """When the last operation of each micro-batch ended, picoseconds."""
    micro_batches = np.asarray(timeline.columns.micro_batch, dtype=np.int64)
    ends = np.asarray(timeline.columns.end, dtype=np.int64)
    last = np.zeros(int(micro_batches.max(initial=-1)) + 1, dtype=np.int64)
    np.maximum.at(last, micro_batches, ends)
    found: list[int] = last.tolist()
    return found


def mean_period(ends: Sequence[int], counted: int) -> float:
    """Picoseconds between two micro-batches, the mean of the second half of those that count.

    Where these are fewer than three, the mean of the whole run.
    """
    if counted <= 2:
        return max(ends) / len(ends)
    middle = counted // 2
    return (ends[counted - 1] - ends[middle]) / (counted - 1 - middle)


def steady_period(
    timeline: Timeline, micro_batches: int | None = None, unit: int = 1
) -> Period | None:
    """The period in which micro-batches end once it is steady; None where none is seen.

    Found from their ends: the shortest pattern of gaps between them that repeats to the
    last one (at least LEAST_REPEATS times, and for half of them, since replicas may end at once
    several times in a row), and the first from which it does. Micro-batches that end at 5, 7,
    10, 12, 15, 17, 20 do so two at a time every 5. Near the end of a run they may hurry, since
    none follow: let it run longer than the ``micro_batches`` that are asked about. A pattern is
    of a multiple of ``unit`` of them (what goes round replicas repeats with them).
    """
    gaps = np.diff(micro_batch_ends(timeline)[:micro_batches])
    for many in range(unit, len(gaps) // LEAST_REPEATS + 1, unit):
        differs = np.flatnonzero(gaps[many:] != gaps[:-many])
        warm_up = int(differs[-1]) + 1 if len(differs) else 0
        if len(gaps) - warm_up >= max(LEAST_REPEATS * many, len(gaps) / 2):
            return Period(int(gaps[-many:].sum()), many, warm_up)
    return None
