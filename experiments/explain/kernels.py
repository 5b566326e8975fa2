"""A step as a profiler shows it: kernels of each device by what they do, and sums over them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from experiments.terms import collective
from planners.order import Kind
from simulator import PICOSECONDS, Operation, Program, Timeline
from simulator.analysis.intervals import covered_ps
from simulator.analysis.worker_records import worker_rows
from simulator.cost.operators import WORK
from simulator.engine.jobs import ints

COPIES = "copies"
COLLECTIVES = (
    *("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast", "send/recv"),
    "other communication",
)
CLASSES = (*WORK, COPIES, *COLLECTIVES)
"""What kernels do: computing, copies between host and device, communication."""
_USUAL = {Kind.SUMS: "all-reduce", Kind.WEIGHTS: "all-gather"}

Interval = tuple[int, int]


class Kernel(NamedTuple):
    """What one device does from ``start_ps`` to ``end_ps``: of ``CLASSES``.

    ``row`` is that of the timeline's columns. What others send is ``received``.
    """

    work: str
    start_ps: int
    end_ps: int
    row: int
    received: bool = False


def kernels(timeline: Timeline) -> Iterator[list[Kernel]]:
    """Of each worker's first core, in the program's order; sends by both of their ends."""
    columns, operations = timeline.columns, timeline.operations
    takers = ends_of(timeline.program).takers
    arrivals: list[list[int]] = [[] for _ in timeline.program.workers]
    for row, index in enumerate(columns.operation):
        for number in takers.get(operations[index], ()):
            arrivals[number].append(row)
    for number, mine in enumerate(worker_rows(timeline)):
        found = list[Kernel]()
        for row in mine.computed.tolist():
            found += _computed(timeline, row)
        for rows, taken in ((mine.joined.tolist(), False), (arrivals[number], True)):
            for row in rows:
                work = communication(operations[columns.operation[row]])
                found.append(Kernel(work, columns.start[row], columns.end[row], row, taken))
        yield sorted(found, key=lambda kernel: (kernel.start_ps, kernel.end_ps, kernel.row))


def _computed(timeline: Timeline, row: int) -> Iterator[Kernel]:
    """A computation as kernels one after the other, each as long as its share of the time."""
    operation = timeline.operations[timeline.columns.operation[row]]
    start, end = timeline.columns.start[row], timeline.columns.end[row]
    shares = operation.work_s if any(operation.work_s) else (operation.flops, 0.0, 0.0)
    whole, done, at = sum(shares), 0.0, start
    for work, share in zip(WORK, shares if whole else (0, 0, 1.0), strict=True):
        if share:
            done += share
            until = start + round((end - start) * done / (whole or 1.0))
            yield Kernel(work, at, until, row)
            at = until


def communication(operation: Operation) -> str:
    """Which of ``COLLECTIVES`` an exchange is."""
    return collective(operation) or _USUAL.get(Kind(operation.kind), "send/recv")


class Ends(NamedTuple):
    """Of each exchange, by their numbers, the workers that take part in it, or receive what it is.

    The latter are of sends, whose parties all send.
    """

    parties: dict[Operation, list[int]]
    takers: dict[Operation, list[int]]


def ends_of(program: Program) -> Ends:
    """Who meets in a program, and who receives."""
    found = Ends({}, {})
    for number, worker in enumerate(program.workers):
        mine = worker.rank_program
        taken = {one.micro_batch for one in mine.instructions} if mine else set()
        for task in worker.template:
            if task.computes:
                continue
            ways = mine.routes.get(task.operation) if mine else None
            used = [ways[n % len(ways)].operation for n in sorted(taken)] if ways else []
            for one in dict.fromkeys(used or [task.operation]):
                found[task.receives].setdefault(one, []).append(number)
    return found


Sums = dict[str, float]
"""Seconds of a step of one device, by class: of several kernels at once, the time once.

Then exposed communication, while nothing is computed or copied, idle time without any kernel,
and the step.
"""


def sums(spans: Mapping[str, Sequence[Interval]], whole_ps: int, step_s: float) -> Sums:
    """Of a device's kernels by class, in ``whole_ps``, as parts of a step of ``step_s``."""
    each = step_s / whole_ps if whole_ps else 0.0

    def covered(names: Iterable[str]) -> int:
        both = [span for name in names for span in spans.get(name, ())]
        starts, ends = zip(*both, strict=True) if both else ((), ())
        return covered_ps(ints(starts), ints(ends))

    busy, working = covered(CLASSES), covered((*WORK, COPIES))
    return {
        **{name: covered([name]) * each for name in CLASSES},
        "exposed communication": (busy - working) * each,
        "idle": (whole_ps - busy) * each,
        "step": step_s,
    }


def mean(of: Sequence[tuple[Sums, int]]) -> Sums:
    """Of several devices, each of which stands for so many."""
    many = sum(count for _, count in of)
    return {name: sum(one[name] * count / many for one, count in of) for name in of[0][0]}


def step_sums(timeline: Timeline, workers: Collection[int] | None = None) -> Sums:
    """Of a mean device, or of those of some workers (their numbers)."""
    found = []
    for number, mine in enumerate(kernels(timeline)):
        if workers is None or number in workers:
            spans = defaultdict[str, list[Interval]](list)
            for kernel in mine:
                spans[kernel.work].append((kernel.start_ps, kernel.end_ps))
            step = sums(spans, timeline.makespan_ps, timeline.iteration_ps / PICOSECONDS)
            found.append((step, timeline.program.workers[number].cores))
    return mean(found)
