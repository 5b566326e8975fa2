"""Where a core's time goes when exchanges overlap with computing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from simulator.analysis.stalls import core_steps
from simulator.engine.timeline import Timeline


class Shares(NamedTuple):
    """How an average core spends the step, as fractions that sum to one."""

    computing: float
    communicating: float
    waiting: float


class CoreTime(NamedTuple):
    """What each core of a worker does over the step, in picoseconds; ``cores`` do the same.

    ``exposed`` is the time in which it computes nothing while an exchange that it waits for,
    or one of its own but a send, is under way (``stalls.Wait``).
    """

    computing: int
    exposed: int
    cores: int


def shares(timeline: Timeline) -> Shares:
    """Computing, communicating and waiting, averaged over all cores.

    Communicating is only what is exposed: the core computes nothing, and what it waits for is
    under way. What is left is waiting for others.
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
    for step in core_steps(timeline):
        computing = sum(took for _, took in step.computed)
        yield CoreTime(computing, sum(wait.exposed for wait in step.waits), step.cores)
