"""Where a core's time goes when exchanges overlap with computing."""

from __future__ import annotations

from typing import NamedTuple

from simulator.analysis.stalls import core_steps
from simulator.engine.timeline import Timeline


class Shares(NamedTuple):
    """How an average core spends the step, as fractions that sum to one."""

    computing: float
    communicating: float
    waiting: float


def shares(timeline: Timeline) -> Shares:
    """Computing, communicating and waiting, averaged over all cores.

    Communicating is only what is exposed: the core computes nothing, and what it waits for is
    under way. What is left is waiting for others. Of several batches it is what one takes in
    the long run, without filling and draining the pipeline.
    """
    whole = timeline.long_run_ps * timeline.cores
    if not whole:
        return Shares(0.0, 0.0, 0.0)
    steps = list(core_steps(timeline))
    computing = sum(step.computing * step.cores for step in steps)
    exposed = sum(step.exposed * step.cores for step in steps)
    exposed = max(min(exposed, whole - computing), 0)
    return Shares(computing / whole, exposed / whole, (whole - computing - exposed) / whole)
