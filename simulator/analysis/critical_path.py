"""The chain of operations that decides how long a step takes."""

from __future__ import annotations

from typing import NamedTuple

from simulator.analysis.schedule import Schedule, schedule
from simulator.engine.interconnect import whole_ps
from simulator.engine.operations import COMPUTE_LEVEL, PICOSECONDS, Operation
from simulator.engine.timeline import Timeline

BOUNDS = ("FLOPs", "HBM", "overhead", "links", "latency")
"""What the time of an operation goes to: the first three of computing, the others of exchanges."""

ROUNDING_PS = 3
"""Three parts are rounded to the nearest picosecond each, and their sum up to the next one.

Beyond three days (2^48 ps) a float of seconds has no whole picoseconds any more: as much again.
"""


class Segment(NamedTuple):
    """One operation on the critical path; times in picoseconds, ``core`` its resource's number.

    An exchange's ``core`` is one that came last.
    """

    operation: Operation
    core: int
    start_ps: int
    end_ps: int

    @property
    def duration_ps(self) -> int:
        """Picoseconds."""
        return self.end_ps - self.start_ps

    def bounds_ps(self) -> dict[str, int]:
        """Its picoseconds by what they go to (BOUNDS); they sum to its duration.

        What an operation's seconds leave over or take too much is rounding to
        whole picoseconds, asserted to be that, and goes to the largest part.
        """
        operation, whole = self.operation, self.duration_ps
        if operation.level != COMPUTE_LEVEL:
            latency = min(whole, sum(whole_ps(job.latency_s) for job in operation.jobs))
            return {"links": whole - latency, "latency": latency}
        if not any(operation.bound_s):  # published: peak rate, nothing else
            return {"FLOPs": whole}
        parts = dict(zip(BOUNDS, map(_rounded_ps, operation.bound_s), strict=False))
        rest = whole - sum(parts.values())
        if abs(rest) > ROUNDING_PS + (whole >> 48):
            raise AssertionError(f"{operation}: {rest} ps of {whole} are unexplained")
        parts[max(parts, key=parts.__getitem__)] += rest
        return parts


def _rounded_ps(seconds: float) -> int:
    return round(seconds * PICOSECONDS)


def critical_path(timeline: Timeline, plan: Schedule | None = None) -> list[Segment]:
    """Segments in order, one after the other without a gap, from 0 to the end of the step.

    Back from what ended last: a core's operation waited for what its core did
    before or for an exchange, an exchange for whoever came last. What takes no
    time is left out.
    """
    found: list[Segment] = []
    done = plan or schedule(timeline)
    place = max(range(len(done.ends)), key=done.ends.__getitem__, default=None)
    while place is not None:
        start, end = done.starts[place], done.ends[place]
        if end > start:
            core = done.accelerators[done.owner(place)].core
            found.append(Segment(done.operation(place), core, start, end))
        place = done.waited_for(place) if start else None
    return found[::-1]
