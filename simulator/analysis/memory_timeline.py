"""How full a worker's HBM is over a run: by its program (``held``), and over time (``filled``).

Cores compute in their program's order, so what is held at each computation follows from the
program alone, whatever the time; a run's records say when that was. All amounts are bytes,
all times picoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from planners.order import Phase
from simulator.analysis.worker_records import RowsByOperation
from simulator.engine.operations import (
    MOVING,
    Board,
    DeviceMemory,
    Instruction,
    Operation,
    Part,
    RankProgram,
    Task,
    Worker,
    all_classes,
)
from simulator.engine.timeline import Timeline
from simulator.lowering.schedules.versions import alive

Floats = NDArray[np.float64]
GRADIENTS, ACTIVATIONS = (MOVING.index(one) for one in ("gradients", "activations"))


class Held(NamedTuple):
    """One computation of a worker: the most that is held meanwhile, and afterwards (bytes).

    Of the weights so many ``versions`` are held; ``in_flight`` micro-batches are
    between forward and backward.
    """

    operation: Operation
    micro_batch: int
    most: float
    after: float
    versions: int = 1
    in_flight: int = 0
    by_class: tuple[float, ...] = ()
    """Of what comes and goes (MOVING), at the most."""


@dataclass(frozen=True)
class Computations:
    """What the computations of a pass hold, in their order: bytes against what is held before it.

    ``most_by`` and ``more_by`` are of shape (computations, classes that come and go).
    """

    operations: list[Operation]
    most: list[float]
    more: list[float]
    most_by: Floats
    more_by: Floats

    @staticmethod
    def of(tasks: Sequence[Task], *, first: bool) -> Computations:
        """Of lines of a template; sums of gradients come in the pass that is ``first`` to have any.

        In later passes they go on: nothing of them comes.
        """
        mine = [task for task in tasks if not task.parties and not task.receives]
        held = [task.held for task in mine]
        updates = [task.operation.phase == Phase.UPDATE for task in mine]
        once = [
            0.0 if first or u else task.accumulated for task, u in zip(mine, updates, strict=True)
        ]
        going_on = np.zeros((len(mine), len(MOVING)))
        going_on[:, GRADIENTS] = once
        most_by = [one.most_by or row for one, row in zip(held, going_on, strict=True)]
        more_by = [one.more_by or row for one, row in zip(held, going_on, strict=True)]
        return Computations(
            [task.operation for task in mine],
            [one.most - less for one, less in zip(held, once, strict=True)],
            [one.more - less for one, less in zip(held, once, strict=True)],
            np.array(most_by).reshape(going_on.shape) - going_on,
            np.array(more_by).reshape(going_on.shape) - going_on,
        )

    @cached_property
    def levels(self) -> list[float]:
        """What is more before each of them, and behind the last."""
        return [*accumulate(self.more, initial=0.0)]

    @cached_property
    def changes(self) -> Floats:
        """What is more of each class behind the last."""
        found: Floats = self.more_by.sum(axis=0)
        return found

    @cached_property
    def fullest(self) -> tuple[float, int]:
        """The most that is held during one of them, and which, the first of such."""
        most = [level + own for level, own in zip(self.levels, self.most, strict=False)]
        return max(most), most.index(max(most))

    def classes(self, moving: Floats, number: int) -> tuple[float, ...]:
        """What comes and goes, by class, during one of them; ``moving`` before the pass."""
        for row in self.more_by[:number]:
            moving = moving + row
        # sums of what comes and goes may end a little below nothing, by rounding
        return tuple(np.maximum(moving + self.most_by[number], 0.0).tolist())


class _Pass(NamedTuple):
    """An instruction, or the forward before it, with what is held when it begins (bytes).

    ``moving`` is what comes and goes of it, by class (MOVING).
    """

    instruction: Instruction
    computed: Computations
    level: float
    moving: Floats
    versions: int
    in_flight: int


def held(worker: Worker) -> Iterator[Held]:
    """Every computation in its order.

    Activations of a micro-batch are held from forward to backward, sums of gradients from
    the first micro-batch of a batch to the update, and each version of the
    weights that somebody still needs beside the newest takes as much as weights do.
    A stage that computes forward again holds its inputs alone meanwhile.
    """
    for one in _passes(worker, worker.followed()):
        level, extra = one.level, (one.versions - 1) * worker.weight_bytes
        computed = one.computed
        each = zip(computed.operations, computed.most, computed.more, strict=True)
        for number, (operation, most, more) in enumerate(each):
            yield Held(
                operation,
                one.instruction.micro_batch,
                max(level + most, 0.0) + extra,  # rounding may leave a little below nothing
                max(level + more, 0.0) + extra,
                one.versions,
                one.in_flight,
                computed.classes(one.moving, number),
            )
            level += more


def peak(worker: Worker) -> Held | None:
    """The computation with the most, the first of such; None where there is none."""
    found: Held | None = None
    for one in _passes(worker, worker.followed()):
        if one.computed.operations:
            inside, number = one.computed.fullest
            extra = (one.versions - 1) * worker.weight_bytes
            most = one.level + inside + extra
            if found is None or most > found.most:
                after = one.level + one.computed.levels[-1] + extra
                found = Held(
                    one.computed.operations[number],
                    one.instruction.micro_batch,
                    most,
                    after,
                    one.versions,
                    one.in_flight,
                    one.computed.classes(one.moving, number),
                )
    return found


def _passes(worker: Worker, rank_program: RankProgram) -> Iterator[_Pass]:
    """All passes in their order, forward that is computed again included."""
    known: dict[tuple[frozenset[Part], int, bool], Computations] = {}

    def computations(instruction: Instruction, *, first: bool) -> Computations:
        key = instruction.parts, instruction.stage, first
        if key not in known:
            tasks = [worker.template[i] for i in rank_program.of(instruction)]
            known[key] = Computations.of(tasks, first=first)
        return known[key]

    instructions, inputs = rank_program.instructions, rank_program.inputs
    level, in_flight, summing = worker.held_bytes, 0, set[int]()
    moving, ends = np.zeros(len(MOVING)), _through(rank_program)
    for instruction, versions in zip(
        instructions, alive(instructions, rank_program.versions), strict=True
    ):
        first, forward = instruction.stage not in summing, Part.FORWARD in instruction.parts
        stage_inputs = np.zeros(len(MOVING))
        stage_inputs[ACTIVATIONS] = inputs.get(instruction.stage, 0.0)
        in_flight += forward
        if instruction.again:  # forward has its inputs among what it keeps
            level, moving = level - inputs.get(instruction.stage, 0.0), moving - stage_inputs
            again = instruction._replace(parts=frozenset({Part.FORWARD}))
            computed = computations(again, first=first)
            yield _Pass(again, computed, level, moving, versions, in_flight)
            level, moving = level + computed.levels[-1], moving + computed.changes
        computed = computations(instruction, first=first)
        yield _Pass(instruction, computed, level, moving, versions, in_flight)
        if forward and instruction.stage in inputs:
            level, moving = level + inputs[instruction.stage], moving + stage_inputs
        else:
            level, moving = level + computed.levels[-1], moving + computed.changes
        in_flight -= ends in instruction.parts
        if Part.WEIGHTS in instruction.parts:
            summing.add(instruction.stage)
        if Part.UPDATE in instruction.parts:
            summing.discard(instruction.stage)


def most_at_once(rank_program: RankProgram) -> tuple[int, int]:
    """Micro-batches that are begun and not through, and versions of the weights, at the most."""
    in_flight = most = 0
    ends = _through(rank_program)
    for instruction in rank_program.instructions:
        in_flight += Part.FORWARD in instruction.parts
        most = max(most, in_flight)
        in_flight -= ends in instruction.parts
    return most, max(alive(rank_program.instructions, rank_program.versions), default=1)


def _through(rank_program: RankProgram) -> Part:
    """The part with which a micro-batch is through: in inference its forward."""
    training = any(Part.WEIGHTS in instruction.parts for instruction in rank_program.instructions)
    return Part.WEIGHTS if training else Part.FORWARD


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
    says by how much each line does, its program in which order; what several units of a
    core do at once is held as if they did it in that order.
    """
    mine, columns = timeline.program.workers[worker], timeline.columns
    found = RowsByOperation(timeline, worker)
    for one in held(mine):
        row = found.next(one.operation, one.micro_batch)
        by_class = classes_of(mine, one.versions, one.by_class) if timeline.memory else ()
        yield Filled(columns.start[row], columns.end[row], one.most, by_class)


def at_rest(timeline: Timeline, worker: int) -> tuple[float, ...]:
    """Bytes of each of CLASSES that a worker holds before the step, and after it."""
    return classes_of(timeline.program.workers[worker], 1, (0.0,) * len(MOVING))


def fullest(timeline: Timeline) -> int:
    """The worker whose cores hold the largest share of their capacity, the first of such."""
    shares = [_most(one, peak(one)) / _capacity(one) for one in timeline.program.workers]
    return shares.index(max(shares))


def device_memory(
    workers: Sequence[Worker], names: Sequence[str], reserve: float = 0.0
) -> tuple[DeviceMemory, ...]:
    """One entry for each place and device; ``names`` are the workers' places.

    A place without a name is called as its device. Bytes are those of the fullest core. The share
    ``reserve`` of capacities is not theirs.
    """
    found: dict[tuple[Board, str], list[tuple[Worker, Held | None]]] = {}
    for worker, name in zip(workers, names, strict=True):
        found.setdefault((worker.device, name), []).append((worker, peak(worker)))
    return tuple(
        _of_place(f"{name} ({device.name})" if name else device.name, uses, reserve)
        for (device, name), uses in found.items()
    )


def _of_place(
    name: str, uses: Sequence[tuple[Worker, Held | None]], reserve: float
) -> DeviceMemory:
    """What the fullest of some workers holds, the first of such."""
    most = [_most(*use) for use in uses]
    (worker, top), capacity = uses[most.index(max(most))], _capacity(uses[0][0])
    where, versions, by_class = "", 1, (0.0,) * len(MOVING)
    if top is not None:
        versions, by_class = top.versions, top.by_class
        copies = f", {versions} versions of the weights" if versions > 1 else ""
        turn = f", micro-batch {top.micro_batch}{copies}" if worker.rank_program else ""
        at = next(one.held.at for one in worker.template if one.operation is top.operation)
        where = f"{at or f'{top.operation.layer} {top.operation.phase}'}{turn}"
    return DeviceMemory(
        name,
        max(most),
        capacity,
        where,
        sum(one.cores for one, _ in uses),
        sum(
            one.cores
            for (one, _), size in zip(uses, most, strict=True)
            if size > (1 - reserve) * capacity
        ),
        classes_of(worker, versions, by_class),
        reserve * capacity,
    )


def _most(worker: Worker, top: Held | None) -> float:
    """The most that a worker holds."""
    return worker.held_bytes if top is None else top.most


def _capacity(worker: Worker) -> float:
    """Bytes of one of its cores' HBM."""
    return worker.device.hbm_capacity_bytes / worker.device.cores_per_chip


def classes_of(worker: Worker, versions: int, moving: tuple[float, ...]) -> tuple[float, ...]:
    """What a worker holds by CLASSES, with so many versions of the weights."""
    more = (versions - 1) * worker.weight_bytes
    always = worker.held_bytes + more, worker.weight_bytes + more, worker.gradient_bytes
    return all_classes(*always, moving)
