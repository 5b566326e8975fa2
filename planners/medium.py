"""What an exchange has to itself: a link of its own, or a part of one shared medium.

On a ``bus`` the exchanges of a level happen at once, over one medium: each of m
alike splits gets 1/m of its bandwidth, and both directions share that (HyPar's
published numbers). It is exact where all halves are alike, which is required.
"""

from __future__ import annotations

from hardware import Array, Group
from planners.plan import Plan, PlanError


def streams(array: Array, group: Group) -> int:
    """Equal streams over the link that serves an exchange between the halves of ``group``.

    1 where each direction of every split has its own link; on a bus two for
    every split of the level. Raises PlanError for a bus of unlike halves.
    """
    if array.topology.kind != "bus" or group.wires is not None:
        return 1
    size = array.group.size
    if len(array.group.kinds) > 1 or size & (size - 1):
        raise PlanError(
            f"array {array.name!r}: topology.kind = 'bus': the published model shares one medium "
            f"among a power of two of like devices; these are {size}, in "
            f"{len(array.group.kinds)} kinds. Change devices.*.count, or use kind = 'tree'"
        )
    return 2 * size // group.size


def check_medium(array: Array, plan: Plan) -> None:
    """Raise PlanError where exchanges of a level differ but would share one medium."""
    if array.topology.kind == "bus":
        for split in plan.splits():
            if len(split.halves) != 1 or any(p.share != 0.5 for p in split.partitions):
                raise PlanError(
                    f"plan for {plan.network!r}: array {array.name!r} is one shared medium "
                    "(topology.kind = 'bus'); the published model simulates only plans that treat "
                    "all halves alike on it, this one does not"
                )
