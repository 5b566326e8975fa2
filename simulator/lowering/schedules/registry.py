"""Schedules by name: the built-in ones, then other packages' entry points."""

from __future__ import annotations

import difflib

from planners import PlanError
from simulator.lowering.schedules.gpipe import GPIPE
from simulator.lowering.schedules.interleaved import INTERLEAVED
from simulator.lowering.schedules.one_forward_one_backward import ONE_FORWARD_ONE_BACKWARD
from simulator.lowering.schedules.pipedream import PIPEDREAM
from simulator.lowering.schedules.schedule import Schedule
from simulator.lowering.schedules.two_buffered import TWO_BUFFERED
from simulator.lowering.schedules.zero_bubble import ZERO_BUBBLE

SCHEDULES: dict[str, Schedule] = {
    schedule.name: schedule
    for schedule in (
        GPIPE,
        ONE_FORWARD_ONE_BACKWARD,
        INTERLEAVED,
        ZERO_BUBBLE,
        PIPEDREAM,
        TWO_BUFFERED,
    )
}

ENTRY_POINTS = "accelarray.schedules"
"""Entry-point group in which other packages announce theirs."""


def schedule_of(name: str) -> Schedule:
    """The schedule called so; raises PlanError with the nearest name."""
    if name in SCHEDULES:
        return SCHEDULES[name]
    from importlib.metadata import entry_points  # a tenth of a command's start, seldom needed

    for entry in entry_points(group=ENTRY_POINTS, name=name):
        found = entry.load()
        if not isinstance(found, Schedule):
            raise PlanError(f"schedule {name!r}: {entry.value} is no Schedule")
        return found
    near = difflib.get_close_matches(name, SCHEDULES, n=1)
    hint = f"did you mean {near[0]}?" if near else f"one of {', '.join(SCHEDULES)}"
    raise PlanError(f"unknown schedule {name!r}; {hint}")
