"""What every worker of a run did: records of its own cores, and of exchanges it took part in."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import NamedTuple

import numpy as np

from simulator.engine.jobs import Ints, ints
from simulator.engine.operations import Operation
from simulator.engine.timeline import Timeline


class WorkerRows(NamedTuple):
    """Rows of a timeline's columns that concern one worker, each in the order in which they ended.

    ``computed`` are its first core's (of a core with several units, theirs), ``joined``
    exchanges that it took part in, ``waited_for`` the row of what it had to wait for before
    each of these (NO_ROW: nothing).
    """

    computed: Ints
    joined: Ints
    waited_for: Ints


def worker_rows(timeline: Timeline) -> list[WorkerRows]:
    """One entry for each worker, in the program's order."""
    count = len(timeline.all_resources.workers)
    workers = workers_of_rows(timeline)
    computed = np.flatnonzero(workers >= 0)
    came, joined, causes = map(ints, timeline.participants)
    return [
        WorkerRows(*mine)
        for mine in zip(
            _by_worker(workers[computed], computed, count),
            _by_worker(came, joined, count),
            _by_worker(came, causes, count),
            strict=True,
        )
    ]


class RowsByOperation:
    """The rows of what a worker computed, to be asked for in any order: units mix theirs.

    What was computed several times in a micro-batch comes in the order in which it began.
    """

    def __init__(self, timeline: Timeline, worker: int) -> None:
        columns = timeline.columns
        rows = worker_rows(timeline)[worker].computed.tolist()
        rows.sort(key=columns.start.__getitem__)
        self._waiting: dict[tuple[Operation, int], deque[int]] = defaultdict(deque)
        for row in rows:
            key = timeline.operations[columns.operation[row]], columns.micro_batch[row]
            self._waiting[key].append(row)

    def next(self, operation: Operation, micro_batch: int) -> int:
        """The next row of an operation in a micro-batch."""
        return self._waiting[operation, micro_batch].popleft()


def workers_of_rows(timeline: Timeline) -> Ints:
    """Per record, the worker whose first core, or its units, it is of; -1 for all else."""
    worker_of = np.full(len(timeline.resources), -1)
    for number, worker_resources in enumerate(timeline.all_resources.workers):
        worker_of[[worker_resources.cores[0], *worker_resources.units]] = number
    return worker_of[ints(timeline.columns.resource)]


def _by_worker(workers: Ints, values: Ints, count: int) -> list[Ints]:
    """Values of each worker, in their order."""
    order = np.argsort(workers, kind="stable")
    ends = np.searchsorted(workers[order], np.arange(count), side="right")
    return np.split(values[order], ends[:-1])
