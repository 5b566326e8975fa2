"""What the published model cannot say of a shared medium is refused here.

On a ``bus`` the exchanges of a level happen at once, over one medium, and each
gets a fair share (``hardware.bisection``). That is HyPar's published model. It
is exact where all halves are alike, which is required.
"""

from __future__ import annotations

from hardware import Array
from planners.errors import PlanError
from planners.plan import Plan


def check_array(array: Array) -> None:
    """Raise PlanError for a bus of boards that does not halve into alike ones all the way down."""
    size = array.group.size
    if not _shared(array) or (len(array.group.kinds) == 1 and not size & (size - 1)):
        return
    raise PlanError(
        f"array {array.name!r}: topology.kind = 'bus': the published model shares one medium "
        f"among a power of two of like devices; these are {size}, in "
        f"{len(array.group.kinds)} kinds. Change devices.*.count, or use kind = 'tree'"
    )


def check_medium(array: Array, plan: Plan) -> None:
    """Raise PlanError where exchanges of a level differ but would share one medium."""
    if _shared(array):
        for split in plan.splits():
            if len(split.halves) != 1 or any(p.share != 0.5 for p in split.partitions):
                raise PlanError(
                    f"plan for {plan.network!r}: array {array.name!r} is one shared medium "
                    "(topology.kind = 'bus'); the published model simulates only plans that treat "
                    "all halves alike on it, this one does not"
                )
    check_array(array)


def _shared(array: Array) -> bool:
    """Whether all exchanges share a medium that nothing but a fair share stands for."""
    return array.topology.shared and array.group.leaf == "board"
