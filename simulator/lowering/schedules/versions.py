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
    first: Mapping[int, int],
) -> dict[int, int]:
    """The version of each turn on one replica, whose ``actions`` these are.

    With a flush, and in inference, there is one. Stashed it is the newest there is when the turn is
    computed forward; with vertical sync that of the ``first`` stage, of whose R replicas
    an update is R minibatches. In two buffers it is the one before the last: batch t is
    computed with version t - 1.
    """
    turns = [action.turn for action in actions if Part.FORWARD in action.parts]
    if schedule.flushes or not any(Part.WEIGHTS in action.parts for action in actions):
        return dict.fromkeys(turns, 0)
    if schedule.whole_batch:
        return {turn: max(turn // pipeline.micro_batches - 1, 0) for turn in turns}
    rank = actions[0].stage % len(pipeline.places) if actions else 0
    if pipeline.vertical_sync and rank:
        each = pipeline.replicas
        return {turn: first[turn] * each[0] // each[rank] for turn in turns}
    found, updates = dict[int, int](), 0
    for action in actions:
        if Part.FORWARD in action.parts:
            found[action.turn] = updates
        updates += Part.UPDATE in action.parts
    return found


def alive(actions: Sequence[Action], versions: Mapping[int, int]) -> list[int]:
    """How many versions are there while each action goes on.

    The newest, and every older one with which a turn is computed that is not through: none
    where all are before the first update.
    """
    first = next((n for n, one in enumerate(actions) if Part.UPDATE in one.parts), len(actions))
    if not any(Part.WEIGHTS in action.parts for action in actions[first:]):
        return [1] * len(actions)
    left: dict[int, int] = {}
    for action in actions:  # a turn goes through several stages of one place
        if Part.WEIGHTS in action.parts:
            version = versions[action.turn]
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
