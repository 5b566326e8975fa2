"""Which version of the weights each micro-batch is computed with: the number of updates before.

A backward pass uses the version that its forward pass used, so that a version is
kept until the last micro-batch that began with it is through.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from planners import Pipeline
from simulator.engine.operations import Action, Part
from simulator.lowering.schedules.schedule import Schedule


def versions_of(
    schedule: Schedule,
    pipeline: Pipeline,
    actions: Sequence[Action],
    first: Mapping[int, int] | None = None,
) -> dict[int, int]:
    """The version of each turn on one replica, whose ``actions`` these are.

    With a flush there is one. Stashed it is the newest there is when the turn is
    computed forward; with vertical sync that of the ``first`` stage. In two buffers
    it is the one before the last: batch t is computed with version t - 1.
    """
    turns = [action.turn for action in actions if Part.FORWARD in action.parts]
    if schedule.flushes:
        return dict.fromkeys(turns, 0)
    if schedule.whole_batch:
        return {turn: max(turn // pipeline.micro_batches - 1, 0) for turn in turns}
    if pipeline.vertical_sync and first is not None:
        return {turn: first[turn] for turn in turns}
    found, updates = dict[int, int](), 0
    for action in actions:
        if Part.FORWARD in action.parts:
            found[action.turn] = updates
        updates += Part.UPDATE in action.parts
    return found


def alive(actions: Sequence[Action], versions: Mapping[int, int]) -> list[int]:
    """How many versions are there while each action goes on.

    The newest, and every older one with which a turn is computed that is not through.
    """
    left: dict[int, int] = {}
    for version in versions.values():
        left[version] = left.get(version, 0) + 1
    found, updates, old = list[int](), 0, 0
    for action in actions:
        while old < updates and not left.get(old):
            old += 1
        kept = sum(1 for version in range(old, updates) if left.get(version))
        found.append(kept + 1)
        if Part.WEIGHTS in action.parts:
            left[versions[action.turn]] -= 1
        updates += Part.UPDATE in action.parts
    return found
