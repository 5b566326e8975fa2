"""A rank's passes as instructions: which micro-batches a replica takes, and when weights change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from planners import Pipeline, PlanError
from simulator.engine.operations import Instruction, Part
from simulator.lowering.schedules.schedule import FORWARD, Pass, Rank, Schedule

SUMS = frozenset({Part.SUMS})
UPDATE = frozenset({Part.UPDATE})
NEW_WEIGHTS = frozenset({Part.NEW_WEIGHTS})


def ahead(replicas: Sequence[int], rank: int) -> int:
    """Minibatches that a replica of a rank computes forward before its first backward."""
    return (sum(replicas) - 1 - sum(replicas[:rank])) // replicas[rank]


def check(schedule: Schedule, pipeline: Pipeline, *, inference: bool = False) -> None:
    """Raise PlanError for a pipeline that the schedule is not for; inference has one version."""
    replicas, many = pipeline.replicas, pipeline.micro_batches
    wrong = schedule.check(replicas, pipeline.virtual, many)
    if wrong is None and schedule.whole_batch and any(many % one for one in replicas):
        wrong = f"{many} micro-batches do not go round {max(replicas)} replicas"
    if wrong is None and not schedule.flushes and pipeline.tied and not inference:
        wrong = "weights that several stages use would have other versions in each"
    if wrong:
        raise PlanError(f"schedule {schedule.name!r}: {wrong}")


def instructions(
    schedule: Schedule, pipeline: Pipeline, rank: int, replica: int, batches: int
) -> tuple[Instruction, ...]:
    """What one replica of a rank does, for so many batches (of which a flush knows one)."""
    replicas = pipeline.replicas
    each = replicas[rank]
    many = pipeline.micro_batches * batches // each
    who = Rank(rank, len(replicas), pipeline.virtual, many, ahead(replicas, rank))
    passes = list(schedule.order(who))
    _check_passes(schedule, who, passes)
    found = _Instructions(pipeline, rank, replica)
    per_update = pipeline.micro_batches // each if schedule.whole_batch else 1
    return tuple(found.of(passes, per_update, at_end=schedule.flushes))


def new_weights(lines: Mapping[tuple[int, Part], object], replica: int) -> tuple[Instruction, ...]:
    """A batch begins with those that were updated in parts: of all stages, the first first."""
    stages = sorted(stage for stage, part in lines if part is Part.NEW_WEIGHTS)
    return tuple(Instruction(NEW_WEIGHTS, stage, replica) for stage in stages)


def forward_instructions(
    schedule: Schedule, pipeline: Pipeline, rank: int, replica: int, batches: int
) -> tuple[Instruction, ...]:
    """The same of inference: forward alone, one batch behind the other without a pause.

    With one stage a place micro-batches come in their order; with several each batch goes
    through them as the schedule has it.
    """
    replicas = pipeline.replicas
    each, rounds = replicas[rank], batches if pipeline.virtual > 1 else 1
    many = pipeline.micro_batches * batches // rounds // each
    who = Rank(rank, len(replicas), pipeline.virtual, many, ahead(replicas, rank))
    order = (one for one in schedule.order(who) if Part.FORWARD in one.parts)
    once = list(order) if pipeline.virtual > 1 else [Pass(FORWARD, n) for n in range(many)]
    found = _Instructions(pipeline, rank, replica)
    return tuple(
        found.instruction(Pass(FORWARD, one.number + again * many, one.chunk))
        for again in range(rounds)
        for one in once
    )


def _check_passes(schedule: Schedule, who: Rank, passes: Sequence[Pass]) -> None:
    """Every micro-batch goes through every stage once: forward, errors, gradients of weights."""
    wanted = {(n, c) for n in range(who.micro_batches) for c in range(who.virtual)}
    for part in (Part.FORWARD, Part.BACKWARD, Part.WEIGHTS):
        seen = [(one.number, one.chunk) for one in passes if part in one.parts]
        if len(seen) != len(wanted) or set(seen) != wanted:
            raise PlanError(
                f"schedule {schedule.name!r}: rank {who.rank} does not take each of its "
                f"{who.micro_batches} micro-batches once through part {part.name.lower()}"
            )


class _Instructions:
    """Passes with what comes after the last one of a batch."""

    def __init__(self, pipeline: Pipeline, rank: int, replica: int) -> None:
        self._pipeline = pipeline
        self._rank = rank
        self._replica = replica
        self._ranks, self._each = len(pipeline.places), pipeline.replicas[rank]

    def of(self, passes: Sequence[Pass], per_update: int, *, at_end: bool) -> Iterator[Instruction]:
        """Gradients are summed behind the last of ``per_update``; then weights are updated.

        At once, or ``at_end`` of all passes.
        """
        last: list[Instruction] = []
        counts: dict[int, int] = {}
        for one in passes:
            instruction = self.instruction(one)
            if Part.WEIGHTS in one.parts:
                count = counts[one.chunk] = counts.get(one.chunk, 0) + 1
                if count % per_update == 0:
                    # all replicas name one turn: the last whose gradients are in the sum
                    round_ = count * self._each - 1
                    instruction = instruction._replace(parts=instruction.parts | SUMS, round=round_)
                    last.append(instruction._replace(parts=UPDATE, again=False))
            yield instruction
            if last and not at_end:
                yield last.pop()
        yield from sorted(last, key=lambda instruction: instruction.stage)

    def instruction(self, one: Pass) -> Instruction:
        """Replica r of R takes the micro-batches r, r + R, r + 2 R."""
        stage = one.chunk * self._ranks + self._rank
        micro_batch = one.number * self._each + self._replica
        again = self._pipeline.stages[stage].recompute and Part.BACKWARD in one.parts
        return Instruction(one.parts, stage, micro_batch, 0, again)
