"""What a worker's HBM holds along its script, whatever the time: cores compute in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planners.order import Phase
from simulator.analysis.worker_records import RowsByOperation, doings
from simulator.engine.occupancy import MOVING, all_classes
from simulator.engine.operations import Action, Itinerary, Operation, Part, Task, Worker
from simulator.engine.timeline import Timeline
from simulator.lowering.schedules.versions import alive

GRADIENTS, ACTIVATIONS = (MOVING.index(one) for one in ("gradients", "activations"))


class Held(NamedTuple):
    """One computation of a worker: the most that is held meanwhile, and afterwards (bytes).

    Of the weights so many ``versions`` are held; ``in_flight`` micro-batches are
    between forward and backward.
    """

    operation: Operation
    turn: int
    most: float
    after: float
    versions: int = 1
    in_flight: int = 0
    by_class: tuple[float, ...] = ()
    """Of what comes and goes (MOVING), at the most."""


class Summary(NamedTuple):
    """A pass over some lines, against what is held before: the most, where, and what is more."""

    most: float
    operation: Operation | None
    more: float


def held(worker: Worker, itinerary: Itinerary) -> Iterator[Held]:
    """Every computation in its order.

    Activations of a micro-batch are held from forward to backward, sums of gradients from
    the first micro-batch of a batch to the update, and each version of the
    weights that somebody still needs beside the newest takes as much as weights do.
    A stage that computes forward again holds its inputs alone meanwhile.
    """
    walk = _Walk(worker, itinerary, Sums(worker.template))
    for one in walk.passes(by_class=True):
        level, extra = one.level, (one.versions - 1) * worker.weight_bytes
        moving = one.moving
        for task, most, more in walk.computations(one):
            at_most, after = walk.classes(one, task)
            # sums of what comes and goes may end a little below nothing, by rounding
            yield Held(
                task.operation,
                one.action.turn,
                max(level + most, 0.0) + extra,
                max(level + more, 0.0) + extra,
                one.versions,
                one.in_flight,
                _nothing_less(moving + at_most),
            )
            level, moving = level + more, moving + after


def peak(worker: Worker, itinerary: Itinerary, sums: Sums | None = None) -> Held | None:
    """The computation with the most, the first of such; None where there is none.

    ``sums`` are its template's, where others have it, too.
    """
    walk = _Walk(worker, itinerary, sums or Sums(worker.template))
    found, fullest = None, 0
    for number, one in enumerate(walk.passes()):
        summary, extra = walk.summary(one), (one.versions - 1) * worker.weight_bytes
        most = one.level + summary.most + extra
        if summary.operation is not None and (found is None or most > found.most):
            after = one.level + summary.more + extra
            where = summary.operation, one.action.turn
            found, fullest = Held(*where, most, after, one.versions, one.in_flight), number
    if found is None:
        return None
    then = next(islice(walk.passes(by_class=True), fullest, None))
    return found._replace(by_class=walk.by_class(then, found.operation))


def _nothing_less(moving: NDArray[np.float64]) -> tuple[float, ...]:
    """Classes whose sums of what comes and goes end a little below nothing, by rounding, at it."""
    return tuple(np.maximum(moving, 0.0).tolist())


def most_at_once(itinerary: Itinerary) -> tuple[int, int]:
    """Micro-batches that are begun and not through, and versions of the weights, at the most."""
    in_flight = most = 0
    ends = _through(itinerary)
    for action in itinerary.actions:
        in_flight += Part.FORWARD in action.parts
        most = max(most, in_flight)
        in_flight -= ends in action.parts
    return most, max(alive(itinerary.actions, itinerary.versions), default=1)


def _through(itinerary: Itinerary) -> Part:
    """The part with which a micro-batch is through: in inference its forward."""
    training = any(Part.WEIGHTS in action.parts for action in itinerary.actions)
    return Part.WEIGHTS if training else Part.FORWARD


def _activations(held_bytes: float) -> NDArray[np.float64]:
    """What is kept for a stage that computes forward again, by class."""
    found = np.zeros(len(MOVING))
    found[ACTIVATIONS] = held_bytes
    return found


class _Pass(NamedTuple):
    """An action, or the forward before it, with what is held when it begins."""

    action: Action
    level: float
    first: bool
    """Whether sums of gradients begin with it."""
    versions: int
    in_flight: int
    moving: NDArray[np.float64]
    """Of ``level`` what comes and goes, by class (MOVING), where that is asked for."""


class Sums:
    """What lines of a template hold, added up once for each sort of pass over some of them.

    Sums of gradients that go on from turn to turn are counted where they are ``first`` held.
    """

    def __init__(self, template: Sequence[Task]) -> None:
        self._template = template
        self._tasks: dict[tuple[int, ...], list[Task]] = {}
        self._changes: dict[tuple[tuple[int, ...], bool], NDArray[np.float64]] = {}
        self._summaries: dict[tuple[tuple[int, ...], bool], Summary] = {}

    def computations(
        self, lines: tuple[int, ...], *, first: bool
    ) -> Sequence[tuple[Task, float, float]]:
        """Computations, the most that each holds and what is more after it (bytes)."""
        if lines not in self._tasks:
            tasks = [self._template[i] for i in lines]
            self._tasks[lines] = [task for task in tasks if not task.parties and not task.receives]
        found = []
        for task in self._tasks[lines]:
            going_on = 0.0 if first or task.operation.phase is Phase.UPDATE else task.once
            found.append((task, task.held.most - going_on, task.held.more - going_on))
        return found

    def classes(
        self, task: Task, *, first: bool
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What a computation holds of each of MOVING, and what is more after it."""
        goes_on = np.zeros(len(MOVING))
        if not first and task.operation.phase is not Phase.UPDATE:
            goes_on[GRADIENTS] = task.once
        held = task.held
        return (held.most_by or goes_on) - goes_on, (held.more_by or goes_on) - goes_on

    def changes(self, lines: tuple[int, ...], *, first: bool) -> NDArray[np.float64]:
        """What is more of each class behind some lines."""
        key = lines, first
        if key not in self._changes:
            computed = self.computations(lines, first=first)
            changes = (self.classes(task, first=first)[1] for task, *_ in computed)
            self._changes[key] = sum(changes, start=np.zeros(len(MOVING)))
        return self._changes[key]

    def summary(self, lines: tuple[int, ...], *, first: bool) -> Summary:
        """Some lines as a whole."""
        key = lines, first
        if key not in self._summaries:
            most, level = 0.0, 0.0
            where: Operation | None = None
            for task, at_most, more in self.computations(lines, first=first):
                if where is None or level + at_most > most:
                    most, where = level + at_most, task.operation
                level += more
            self._summaries[key] = Summary(most, where, level)
        return self._summaries[key]


class _Walk:
    """A walk along a worker's actions."""

    def __init__(self, worker: Worker, itinerary: Itinerary, sums: Sums) -> None:
        self._worker = worker
        self._itinerary = itinerary
        self._sums = sums
        self._lines: dict[tuple[frozenset[Part], int], tuple[int, ...]] = {}
        self._summaries: dict[tuple[frozenset[Part], int, bool], Summary] = {}

    def passes(self, *, by_class: bool = False) -> Iterator[_Pass]:
        """All of them, forward that is computed again included; what is ``moving`` if asked."""
        actions, inputs = self._itinerary.actions, self._itinerary.inputs
        level, in_flight, summing = self._worker.held_bytes, 0, set[int]()
        moving, ends = np.zeros(len(MOVING)), _through(self._itinerary)
        kept = {stage: _activations(held_bytes) for stage, held_bytes in inputs.items()}
        for action, versions in zip(actions, alive(actions, self._itinerary.versions), strict=True):
            first, forward = action.stage not in summing, Part.FORWARD in action.parts
            in_flight += forward
            if action.again:
                again = action._replace(parts=frozenset({Part.FORWARD}))
                one = _Pass(again, level, first, versions, in_flight, moving)
                yield one
                level += self.summary(one).more - inputs.get(action.stage, 0.0)
                if by_class:
                    moving = moving + self._changes(one) - kept.get(action.stage, 0.0)
            one = _Pass(action, level, first, versions, in_flight, moving)
            yield one
            if forward and action.stage in inputs:
                level, moving = level + inputs[action.stage], moving + kept[action.stage]
            else:
                level += self.summary(one).more
                if by_class:
                    moving = moving + self._changes(one)
            in_flight -= ends in action.parts
            if Part.WEIGHTS in action.parts:
                summing.add(action.stage)
            if Part.UPDATE in action.parts:
                summing.discard(action.stage)

    def computations(self, one: _Pass) -> Sequence[tuple[Task, float, float]]:
        """A pass's computations, the most that each holds and what is more after it (bytes)."""
        return self._sums.computations(self._of(one.action), first=one.first)

    def classes(self, one: _Pass, task: Task) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """What a computation of a pass holds of each of MOVING, and what is more after it."""
        return self._sums.classes(task, first=one.first)

    def by_class(self, one: _Pass, operation: Operation) -> tuple[float, ...]:
        """What is held of each of MOVING, at an operation of a pass."""
        moving = one.moving
        for task, *_ in self.computations(one):
            at_most, after = self.classes(one, task)
            if task.operation is operation:
                return _nothing_less(moving + at_most)
            moving = moving + after
        return _nothing_less(moving)

    def summary(self, one: _Pass) -> Summary:
        """A pass as a whole."""
        key = one.action.parts, one.action.stage, one.first
        found = self._summaries.get(key)
        if found is None:
            found = self._sums.summary(self._of(one.action), first=one.first)
            self._summaries[key] = found
        return found

    def _changes(self, one: _Pass) -> NDArray[np.float64]:
        return self._sums.changes(self._of(one.action), first=one.first)

    def _of(self, action: Action) -> tuple[int, ...]:
        key = action.parts, action.stage
        if key not in self._lines:
            self._lines[key] = self._itinerary.of(action)
        return self._lines[key]


class Filled(NamedTuple):
    """The most that is held during one computation (bytes), from its start to its end (ps).

    ``by_class`` has it by CLASSES, of the weights every version that is held; () of a program
    that says nothing of its memory.
    """

    start_ps: int
    end_ps: int
    most: float
    by_class: tuple[float, ...] = ()


def filled(timeline: Timeline, worker: int) -> Iterator[Filled]:
    """Every computation of a worker.

    What a worker holds grows and shrinks with what it computes: activations
    that wait for backward, gradients that wait for the update. Its template
    says by how much each line does; how often, and in which order, is read
    from the records, so that several micro-batches in flight add up. With an
    itinerary the order is known, and each record is one of it; what several units of a
    core do at once is held as if they did it in that order.
    """
    mine, known = timeline.program.workers[worker], bool(timeline.memory)
    walk = _in_stages if mine.itinerary is not None else _in_one
    for start_ps, end_ps, most, versions, moving in walk(timeline, worker):
        by_class = _all_classes(mine, versions, moving) if known else ()
        yield Filled(start_ps, end_ps, most, by_class)


def at_rest(timeline: Timeline, worker: int) -> tuple[float, ...]:
    """Bytes of each of CLASSES that a worker holds before the step, and after it."""
    return _all_classes(timeline.program.workers[worker], 1, (0.0,) * len(MOVING))


def memory_over_time(timeline: Timeline, worker: int) -> Iterator[tuple[int, int, float]]:
    """Start, end (picoseconds) and the most that was held (bytes) of each computation."""
    for one in filled(timeline, worker):
        yield one[:3]


def peak_bytes(timeline: Timeline, worker: int) -> float:
    """The most that one of a worker's cores held at any time, in bytes."""
    held_bytes = timeline.program.workers[worker].held_bytes
    return max((most for _, _, most in memory_over_time(timeline, worker)), default=held_bytes)


def fullest(timeline: Timeline) -> int:
    """The worker whose cores hold the largest share of their capacity, the first of such."""
    workers = timeline.program.workers
    shares = [
        _most(one) / (one.device.hbm_capacity_bytes / one.device.cores_per_chip) for one in workers
    ]
    return shares.index(max(shares))


def _most(worker: Worker) -> float:
    """The most that a worker holds, by its script."""
    if worker.itinerary is not None:
        top = peak(worker, worker.itinerary)
        return worker.held_bytes if top is None else top.most
    most = level = worker.held_bytes
    for task in worker.template:
        most, level = max(most, level + task.held.most), level + task.held.more
    return most


Step = tuple[int, int, float, int, tuple[float, ...]]
"""Start, end, the most, versions of the weights, and of the most what comes and goes (MOVING)."""


def _in_stages(timeline: Timeline, worker: int) -> Iterator[Step]:
    mine, columns = timeline.program.workers[worker], timeline.columns
    if mine.itinerary is None:
        return
    found = RowsByOperation(timeline, worker)
    for one in held(mine, mine.itinerary):
        row = found.next(one.operation, one.turn)
        yield columns.start[row], columns.end[row], one.most, one.versions, one.by_class


def _in_one(timeline: Timeline, worker: int) -> Iterator[Step]:
    mine, columns = timeline.program.workers[worker], timeline.columns
    rows = doings(timeline)[worker].computed.tolist()
    rows.sort(key=columns.start.__getitem__)
    changes = {task.operation: task.held for task in mine.template}
    nothing = (0.0,) * len(MOVING)
    level, moving = mine.held_bytes, nothing
    for row in rows:
        most, more, most_by, more_by = changes[timeline.operations[columns.operation[row]]]
        # sums of what comes and goes may end a little below nothing, by rounding
        at_most = tuple(max(a + b, 0.0) for a, b in zip(moving, most_by or nothing, strict=True))
        yield columns.start[row], columns.end[row], max(level + most, 0.0), 1, at_most
        level += more
        moving = tuple(a + b for a, b in zip(moving, more_by or nothing, strict=True))


def _all_classes(worker: Worker, versions: int, moving: tuple[float, ...]) -> tuple[float, ...]:
    more = (versions - 1) * worker.weight_bytes
    always = worker.held_bytes + more, worker.weight_bytes + more, worker.gradient_bytes
    return all_classes(*always, moving)
