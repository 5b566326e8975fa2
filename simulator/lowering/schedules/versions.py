"""Which version of the weights each micro-batch is computed with: the number of updates before.

A backward pass uses the version that its forward pass used, so that a version is
kept until the last micro-batch that began with it is through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planners import Pipeline
from simulator.engine.operations import Instruction, Part
from simulator.lowering.schedules.schedule import Schedule


def versions_of(
    schedule: Schedule,
    pipeline: Pipeline,
    instructions: Sequence[Instruction],
    first: Mapping[int, int],
) -> dict[int, int]:
    """The version of each turn on one replica, whose ``instructions`` these are.

    With a flush, and in inference, there is one. Stashed it is the newest there is when the turn is
    computed forward; with vertical sync that of the ``first`` stage, of whose R replicas
    an update is R minibatches. In two buffers it is the one before the last: batch t is
    computed with version t - 1.
    """
    turns = [
        instruction.micro_batch for instruction in instructions if Part.FORWARD in instruction.parts
    ]
    if schedule.flushes or not any(
        Part.WEIGHTS in instruction.parts for instruction in instructions
    ):
        return dict.fromkeys(turns, 0)
    if schedule.whole_batch:
        return {
            micro_batch: max(micro_batch // pipeline.micro_batches - 1, 0) for micro_batch in turns
        }
    rank = instructions[0].stage % len(pipeline.places) if instructions else 0
    if pipeline.vertical_sync and rank:
        each = pipeline.replicas
        return {micro_batch: first[micro_batch] * each[0] // each[rank] for micro_batch in turns}
    found, updates = dict[int, int](), 0
    for instruction in instructions:
        if Part.FORWARD in instruction.parts:
            found[instruction.micro_batch] = updates
        updates += Part.UPDATE in instruction.parts
    return found


def alive(instructions: Sequence[Instruction], versions: Mapping[int, int]) -> list[int]:
    """How many versions are there while each instruction goes on.

    The newest, and every older one with which a turn is computed that is not through: none
    where all are before the first update.
    """
    first = next(
        (n for n, one in enumerate(instructions) if Part.UPDATE in one.parts), len(instructions)
    )
    if not any(Part.WEIGHTS in instruction.parts for instruction in instructions[first:]):
        return [1] * len(instructions)
    left: dict[int, int] = {}
    for instruction in instructions:  # a turn goes through several stages of one place
        if Part.WEIGHTS in instruction.parts:
            version = versions[instruction.micro_batch]
            left[version] = left.get(version, 0) + 1
    found, updates, old = list[int](), 0, 0
    for instruction in instructions:
        while old < updates and not left.get(old):
            old += 1
        kept = sum(1 for version in range(old, updates) if left.get(version))
        found.append(kept + 1)
        if Part.WEIGHTS in instruction.parts:
            left[versions[instruction.micro_batch]] -= 1
        updates += Part.UPDATE in instruction.parts
    return found
