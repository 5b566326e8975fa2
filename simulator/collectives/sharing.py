"""Of groups that run one collective at once, those that may be on the same links.

A group's copies that have links of their own take as long as it does, and are left out where only
seconds are asked for. Of four boards of four chips, all in groups of the chips of one: no group is
on links of another, and each takes as long as one alone, however many there are.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from hardware import Wires
from simulator.collectives.cubes import Cube, Line, Reach
from simulator.collectives.groups import Groups, Mirrored
from simulator.collectives.kept import KEPT
from simulator.collectives.quotient import Quotient
from simulator.collectives.sections import Copies


def sharing(groups: Groups) -> Groups:
    """As long for all collectives, by fewer copies; ``count`` stays what it is."""
    if not isinstance(groups, Mirrored):
        return groups
    key = groups.speeds, groups.cube
    if not KEPT.get("uniform", key, partial(_is_uniform, groups.wires, groups.cube)):
        return groups
    apart = -1
    for reach in groups.cube.reaches:
        apart &= _apart(reach, groups.axes)
        if not groups.axes & reach.region:  # all messages have found a way
            break
    return replace(groups, free=groups.free & ~apart)


def _apart(reach: Reach, members: int) -> int:
    """Axes in which two cores never use the same of a subnet's links.

    Messages go between cores that differ in axes of ``members``.
    """
    found = -1
    for links in reach.links:
        if isinstance(links, Line):
            if members & links.along:
                found &= links.before | links.behind
        elif not links.apart or members & links.axes:
            found &= links.axes
    return found


def _is_uniform(wires: Wires, cube: Cube) -> bool:
    """Whether links of one sort are equally fast."""
    on = Quotient(cube, Copies(cube.all_axes, 0, 0))
    ranges = (on.range_of(number, wires) for number in range(len(on.sections)))
    return all(low >= high for low, high in ranges)  # without any, from infinity to nothing
