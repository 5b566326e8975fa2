"""The chain of operations that decides how long a step takes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.analysis.worker_records import workers_of_rows
from simulator.engine.operations import COMPUTE_LEVEL, Operation
from simulator.engine.picoseconds import nearest_ps, whole_ps
from simulator.engine.records import NO_ROW
from simulator.engine.timeline import Timeline

BOUNDS = ("FLOPs", "HBM", "overhead", "links", "latency")
"""What the time of an operation goes to: the first three of computing, the others of exchanges."""

SLOWED = "slowed"
"""What an operation took beyond its own duration: its worker's pace, or an HBM that others use."""

ROUNDING_PS = 3
"""Three parts are rounded to the nearest picosecond each, and their sum up to the next one.

Beyond three days (2^48 ps) a float of seconds has no whole picoseconds any more: as much again.
"""


class Segment(NamedTuple):
    """One operation on the critical path; times in picoseconds, ``core`` its resource's number.

    An exchange's ``core`` is one that waits for its end.
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
            return _with_rest({"FLOPs": operation.duration_ps}, whole)
        parts = dict(zip(BOUNDS, map(nearest_ps, operation.bound_s), strict=False))
        rest = operation.duration_ps - sum(parts.values())
        if abs(rest) > ROUNDING_PS + (whole >> 48):
            raise AssertionError(f"{operation}: {rest} ps of {whole} are unexplained")
        parts[max(parts, key=parts.__getitem__)] += rest
        return _with_rest(parts, whole)


def _with_rest(parts: dict[str, int], whole: int) -> dict[str, int]:
    """What it took beyond its own duration, as a part of its own."""
    rest = whole - sum(parts.values())
    return parts | {SLOWED: rest} if rest else parts


def critical_path(timeline: Timeline) -> list[Segment]:
    """Segments in order, one after the other without a gap, from 0 to the end of the step.

    Back from what ended last, from cause to cause: a core's operation waited
    for what its core did before or for an exchange, an exchange for whoever
    came last. What takes no time is left out.
    """
    found: list[Segment] = []
    _, operation, _, starts, ends, causes = timeline.columns
    last, owners = _last_comers(timeline), workers_of_rows(timeline).tolist()
    row, worker = _end(timeline)
    while row != NO_ROW:
        worker = worker if owners[row] < 0 else owners[row]
        if ends[row] > starts[row]:
            core = timeline.all_resources.workers[worker].cores[0]
            found.append(Segment(timeline.operations[operation[row]], core, starts[row], ends[row]))
        worker = last.get(row, worker)
        row = causes[row] if starts[row] else NO_ROW
    return found[::-1]


def _end(timeline: Timeline) -> tuple[int, int]:
    """The row that ended last, and its worker; of those at once, the first worker's."""
    ends, owners = np.asarray(timeline.columns.end), workers_of_rows(timeline)
    came, joined, _ = (np.asarray(column, dtype=np.int64) for column in timeline.participants)
    rows = np.concatenate([np.flatnonzero(owners >= 0), joined])
    workers = np.concatenate([owners[owners >= 0], came])
    if not len(rows):
        return NO_ROW, NO_ROW
    at_once = ends[rows] == ends[rows].max()
    place = np.lexsort((rows[at_once], workers[at_once]))[0]
    return int(rows[at_once][place]), int(workers[at_once][place])


def _last_comers(timeline: Timeline) -> dict[int, int]:
    """Per exchange, who let it begin: of those who waited for its cause, the first worker."""
    came, joined, waited_for = (
        np.asarray(column, dtype=np.int64) for column in timeline.participants
    )
    decided = waited_for == np.asarray(timeline.columns.cause, dtype=np.int64)[joined]
    order = np.argsort(-came[decided], kind="stable")
    return dict(zip(joined[decided][order].tolist(), came[decided][order].tolist(), strict=True))
