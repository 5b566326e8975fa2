"""Links shared max-min fairly among jobs: the flow network on SimPy."""

from __future__ import annotations

from bisect import bisect_right

import numpy as np
import simpy
from numpy.typing import ArrayLike

from simulator.engine.jobs import Floats, Job
from simulator.engine.region import Moved, Region


class Interconnect:
    """Links (B/s each) that jobs hold together, each job every link of its load at once.

    Rates are max-min fair per flow: all rates grow alike until a link is
    full, its jobs keep that rate, the others grow on. They change when a job
    comes or goes, at whole picoseconds; a job's bytes are through at the next
    whole one. Its latency comes after its bytes and holds no link.

    Links are numbered through all ``regions``, and the links of a job are all
    of one region: what goes on in another does not concern it. So the wires
    between cores are one region, and each HBM is a region of one link, unless
    transfers are to hold both (then they are one).

    Forgotten appointments stay in the queue: take a run's end from its events,
    not from the clock of an emptied environment.
    """

    def __init__(self, env: simpy.Environment, *regions: ArrayLike) -> None:
        self._regions: list[Region] = []
        self._starts: list[int] = []
        for bandwidth in regions:
            first = self._starts[-1] + len(self._regions[-1].link_bytes) if self._regions else 0
            self._starts.append(first)
            values = np.asarray(bandwidth, dtype=np.float64)
            self._regions.append(Region(env, values, first))

    @property
    def link_bytes(self) -> Floats:
        """Bytes that have crossed every link."""
        parts = [region.link_bytes for region in self._regions]
        return np.concatenate(parts) if parts else np.zeros(0)

    def submit(self, job: Job) -> Moved:
        """Begin now; the event (value: the job) fires when its bytes and latency are over."""
        return self._region(job).submit(job)

    def _region(self, job: Job) -> Region:
        links = job.load.links
        place = bisect_right(self._starts, int(links[0])) - 1 if len(links) else 0
        return self._regions[place]
