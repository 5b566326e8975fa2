"""What every worker of a run did: records of its own cores, and of exchanges it took part in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.engine.jobs import Ints
from simulator.engine.timeline import Timeline


class Doings(NamedTuple):
    """Rows of a timeline's columns that concern one worker, each in the order in which they ended.

    ``computed`` are its first core's, ``joined`` exchanges that it took part
    in, ``waited_for`` the row of what it had to wait for before each of these
    (NO_ROW: nothing).
    """

    computed: Ints
    joined: Ints
    waited_for: Ints


def doings(timeline: Timeline) -> list[Doings]:
    """One entry for each worker, in the program's order."""
    stations = timeline.stations.workers
    count = len(stations)
    workers = workers_of_rows(timeline)
    rows = np.flatnonzero(workers >= 0)
    came, joined, causes = (np.asarray(column, dtype=np.int64) for column in timeline.joins)
    return [
        Doings(*mine)
        for mine in zip(
            _by_worker(workers[rows], rows, count),
            _by_worker(came, joined, count),
            _by_worker(came, causes, count),
            strict=True,
        )
    ]


def workers_of_rows(timeline: Timeline) -> Ints:
    """Per record, the worker whose first core it is of; -1 for other cores, HBMs and links."""
    stations = timeline.stations.workers
    worker_of = np.full(len(timeline.resources), -1)
    worker_of[[station.cores[0] for station in stations]] = np.arange(len(stations))
    return worker_of[np.asarray(timeline.columns.resource, dtype=np.int64)]


def _by_worker(workers: Ints, values: Ints, count: int) -> list[Ints]:
    """Values of each worker, in their order."""
    order = np.argsort(workers, kind="stable")
    ends = np.searchsorted(workers[order], np.arange(count), side="right")
    return np.split(values[order], ends[:-1])
