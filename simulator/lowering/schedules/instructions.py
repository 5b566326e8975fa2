"""A rank's passes as instructions: which micro-batches a replica takes, and when weights change."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import lcm

from planners import Pipeline, PlanError
from simulator.engine.operations import Instruction, Part
from simulator.lowering.schedules.schedule import FORWARD, Pass, Rank, Schedule

SUMS = frozenset({Part.SUMS})
UPDATE = frozenset({Part.UPDATE})
NEW_WEIGHTS = frozenset({Part.NEW_WEIGHTS})


def ahead(pipeline: Pipeline, rank: int, replica: int) -> int:
    """Minibatches that a replica of a rank computes forward before its first backward.

    Its part of as many as there are replicas behind: floor((R - 1 - sum of r_i before) / r) for
    r that take turns. Of a place whose replicas take unlike numbers of micro-batches, as many
    as go by while the slowest has one.
    """
    behind = sum(len(one.round) // min(one.turns or (1,)) for one in pipeline.places[rank + 1 :])
    own = pipeline.places[rank]
    return -(-behind * own.round.count(replica) // len(own.round))


def check(schedule: Schedule, pipeline: Pipeline, *, inference: bool = False) -> None:
    """Raise PlanError for a pipeline that the schedule is not for; inference has one version."""
    replicas, many = pipeline.replicas, pipeline.micro_batches
    wrong = schedule.wrong(replicas, pipeline.virtual, many)
    longest = max(map(len, pipeline.rounds))
    if wrong is None and schedule.whole_batch and any(many % len(r) for r in pipeline.rounds):
        each = lcm(*map(len, pipeline.rounds))
        wrong = (
            f"{many} micro-batches do not go round {longest} replicas; take a multiple of {each}"
        )
    if wrong is None and not schedule.flushes and any(one.turns for one in pipeline.places):
        wrong = "replicas that take unlike numbers of micro-batches do so between two flushes"
    if wrong is None and not schedule.flushes and pipeline.tied and not inference:
        wrong = (
            "weights that several stages use would have other versions in each; take 1f1b, or a "
            "network that shares none (gpt2:tied=no)"
        )
    if wrong is None and schedule.flushes and pipeline.vertical_sync:
        wrong = "with a flush there is one version of the weights: leave vertical_sync out"
    if wrong:
        raise PlanError(f"schedule {schedule.name!r}: {wrong}")


def instructions(
    schedule: Schedule, pipeline: Pipeline, rank: int, replica: int, batches: int
) -> tuple[Instruction, ...]:
    """What one replica of a rank does, for so many batches (of which a flush knows one)."""
    found = _Instructions(pipeline, rank, replica)
    many = found.turns_of(pipeline.micro_batches * batches)
    early = ahead(pipeline, rank, replica)
    who = Rank(rank, len(pipeline.places), pipeline.virtual, many, early)
    passes = schedule.passes(who)
    per_update = found.turns_of(pipeline.micro_batches) if schedule.whole_batch else 1
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
    rounds = batches if pipeline.virtual > 1 else 1
    found = _Instructions(pipeline, rank, replica)
    many = found.turns_of(pipeline.micro_batches * batches // rounds)
    early = ahead(pipeline, rank, replica)
    who = Rank(rank, len(pipeline.places), pipeline.virtual, many, early)
    once = [Pass(FORWARD, n) for n in range(many)]
    if pipeline.virtual > 1:
        once = [one for one in schedule.passes(who) if Part.FORWARD in one.parts]
    return tuple(
        found.instruction(Pass(FORWARD, one.number + again * many, one.chunk))
        for again in range(rounds)
        for one in once
    )


class _Instructions:
    """Passes with what comes after the last one of a batch."""

    def __init__(self, pipeline: Pipeline, rank: int, replica: int) -> None:
        self._pipeline = pipeline
        self._rank = rank
        self._ranks, self._round = len(pipeline.places), pipeline.rounds[rank]
        self._mine = [turn for turn, who in enumerate(self._round) if who == replica]

    def turns_of(self, micro_batches: int) -> int:
        """How many of so many micro-batches, which are whole rounds, are the replica's."""
        return micro_batches // len(self._round) * len(self._mine)

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
                    round_ = count // len(self._mine) * len(self._round) - 1
                    instruction = instruction._replace(parts=instruction.parts | SUMS, round=round_)
                    last.append(instruction._replace(parts=UPDATE, again=False))
            yield instruction
            if last and not at_end:
                yield last.pop()
        yield from sorted(last, key=lambda instruction: instruction.stage)

    def instruction(self, one: Pass) -> Instruction:
        """Replica r of R takes the micro-batches r, r + R, r + 2 R, or its turns of each round."""
        stage = one.chunk * self._ranks + self._rank
        rounds, turn = divmod(one.number, len(self._mine))
        micro_batch = rounds * len(self._round) + self._mine[turn]
        again = self._pipeline.stages[stage].recompute and Part.BACKWARD in one.parts
        return Instruction(one.parts, stage, micro_batch, 0, again)
