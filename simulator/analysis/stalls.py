"""What every core does with the step: computing, and what it waits for when it does not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planners.order import Kind
from simulator.analysis.intervals import Union
from simulator.analysis.worker_records import WorkerRows, worker_rows
from simulator.engine.jobs import Ints, as_kept
from simulator.engine.operations import Operation, Worker
from simulator.engine.records import NO_ROW
from simulator.engine.timeline import Timeline


class Wait(NamedTuple):
    """Time in which a core computes nothing, because of one exchange in all its turns; picoseconds.

    ``exposed``: an exchange that it takes part in is under way; ``waiting``:
    none is, since others are not ready. ``exchange`` is None behind its last operation.
    """

    exchange: Operation | None
    exposed: int
    waiting: int


class Records(NamedTuple):
    """A timeline's columns as arrays, made once for all workers, and what they number."""

    operations: Sequence[Operation]
    resource: Ints
    operation: Ints
    micro_batch: Ints
    start: Ints
    end: Ints
    cause: Ints


class CoreStep(NamedTuple):
    """What each core of one worker computes and waits for; together the whole step.

    An operation is there once, with all of its turns. Picoseconds of each of the
    ``cores`` of the array that do this. While several units of a core are busy, the
    time is put down to the operation that began first.
    """

    worker: Worker
    computed: list[tuple[Operation, int]]
    waits: list[Wait]

    @property
    def cores(self) -> int:
        """How many of the array's cores do this."""
        return self.worker.cores

    @property
    def computing(self) -> int:
        """What each computes, in all."""
        return sum(took for _, took in self.computed)

    @property
    def exposed(self) -> int:
        """When it does not, while an exchange that it waits for, or its own, is under way."""
        return sum(wait.exposed for wait in self.waits)


def core_steps(timeline: Timeline) -> Iterator[CoreStep]:
    """What every worker's cores do, in the program's order."""
    records = Records(timeline.operations, *map(as_kept, timeline.columns))
    for worker, mine in zip(timeline.program.workers, worker_rows(timeline), strict=True):
        yield _core_step(records, timeline.makespan_ps, worker, mine)


def _core_step(records: Records, whole_ps: int, worker: Worker, mine: WorkerRows) -> CoreStep:
    """Follow one core: what it computes, and back from each gap to what it waited for."""
    operation, starts, ends = records.operation, records.start, records.end
    computed = mine.computed[np.argsort(starts[mine.computed], kind="stable")]
    behind, alone = _in_turn(starts[computed], ends[computed])
    gaps = np.flatnonzero(starts[computed] > behind)
    free = int(ends[computed].max(initial=0))
    last = mine.joined[np.argmax(ends[mine.joined])] if len(mine.joined) else NO_ROW
    rows = np.append(records.cause[computed[gaps]], last)
    waits = _waits(records, worker, mine, rows, np.append(behind[gaps], free))
    end = max(free, int(ends[last]) if last != NO_ROW else 0)
    if idle := whole_ps - end:
        waits.append(Wait(None, 0, idle))
    return CoreStep(worker, _by_operation(records.operations, operation[computed], alone), waits)


def _waits(
    records: Records, worker: Worker, mine: WorkerRows, rows: Ints, free: Ints
) -> list[Wait]:
    """From each time when a core was ``free`` to the end of a record, by what it waited for.

    Of what others send nobody knows here what they waited for before, unless it was an
    exchange of this worker's.
    """
    operations, _, operation, _, starts, ends, causes = records
    order = np.argsort(mine.joined, kind="stable")
    joined, waited_for = mine.joined[order], mine.waited_for[order]
    waits_for_sends = worker.rank_program is not None and worker.rank_program.sends != "beside"
    sends = np.array([one.kind == Kind.SEND for one in operations], dtype=np.bool_)
    own = joined if waits_for_sends else joined[~sends[operation[joined]]]
    under_way = Union(starts[own], ends[own])
    found: list[tuple[Ints, Ints, Ints]] = []
    while True:
        late = rows != NO_ROW
        late[late] = ends[rows[late]] > free[late]
        rows, free = rows[late], free[late]
        if not len(rows):
            break
        which, is_own = _among(joined, rows)
        _, waits_for_own = _among(joined, causes[rows])
        before = np.where(waits_for_own, causes[rows], NO_ROW)
        before[is_own] = waited_for[which[is_own]]
        low = np.where(before == NO_ROW, free, np.maximum(free, ends[before]))
        end = ends[rows]
        exposed = np.where(
            is_own,
            under_way.before(end) - under_way.before(low),
            end - np.maximum(starts[rows], low),
        )
        found.append((operation[rows], exposed, end - low - exposed))
        rows = before
    if not found:
        return []
    which, exposed, waiting = map(np.concatenate, zip(*found, strict=True))
    turns = zip(
        _by_operation(operations, which, exposed),
        _by_operation(operations, which, waiting),
        strict=True,
    )
    return [Wait(one, exposed_ps, waiting_ps) for (one, exposed_ps), (_, waiting_ps) in turns]


def _among(some: Ints, rows: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Where rows stand in ``some``, which ascend, and which of them do."""
    if not len(some):
        return rows, np.zeros(len(rows), dtype=np.bool_)
    place = np.minimum(np.searchsorted(some, rows), len(some) - 1)
    return place, some[place] == rows


def _in_turn(begins: Ints, stops: Ints) -> tuple[Ints, Ints]:
    """Until when a core was busy before each of its records, and what each adds to that.

    Records of 0-5, 2-4 and 3-9 on its units add 5, 0 and 4, together the 9 of their union.
    """
    if not len(begins):
        return begins, begins
    behind = np.concatenate([[0], np.maximum.accumulate(stops)[:-1]])
    return behind, np.maximum(stops - np.maximum(begins, behind), 0)


def _by_operation(
    operations: Sequence[Operation], which: Ints, took: Ints
) -> list[tuple[Operation, int]]:
    """How long each operation ``took``, all of its turns together."""
    found, first, number = np.unique(which, return_index=True, return_inverse=True)
    total = np.zeros(len(found), dtype=np.int64)
    np.add.at(total, number, took)
    order = np.argsort(first)
    return [(operations[found[i]], int(total[i])) for i in order.tolist()]
