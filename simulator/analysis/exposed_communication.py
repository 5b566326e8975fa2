"""Where a core's time goes when exchanges overlap with computing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from simulator.analysis.worker_records import doings
from simulator.engine.jobs import Ints
from simulator.engine.timeline import Timeline

Interval = tuple[int, int]
"""Start and end in picoseconds."""


class Shares(NamedTuple):
    """How an average core spends the step, as fractions that sum to one."""

    computing: float
    communicating: float
    waiting: float


class CoreTime(NamedTuple):
    """What each core of a worker does over the step, in picoseconds; ``cores`` do the same.

    ``exposed`` is the time in which it computes nothing while an exchange
    that it takes part in is under way.
    """

    computing: int
    exposed: int
    cores: int


def shares(timeline: Timeline) -> Shares:
    """Computing, communicating and waiting, averaged over all cores.

    Communicating is only what is exposed: an exchange is under way and the
    core does not compute. What is left is waiting for others.
    """
    whole = timeline.makespan_ps * timeline.cores
    if not whole:
        return Shares(0.0, 0.0, 0.0)
    times = list(core_times(timeline))
    computing = sum(t.computing * t.cores for t in times)
    exposed = sum(t.exposed * t.cores for t in times)
    return Shares(computing / whole, exposed / whole, (whole - computing - exposed) / whole)


def core_times(timeline: Timeline) -> Iterator[CoreTime]:
    """One entry for each worker, in the program's order."""
    starts, ends = timeline.times
    for worker, mine in zip(timeline.program.workers, doings(timeline), strict=True):
        both = np.concatenate([mine.computed, mine.joined])
        busy = covered_ps(starts[mine.computed], ends[mine.computed])
        yield CoreTime(busy, covered_ps(starts[both], ends[both]) - busy, worker.cores)


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
