"""Which values of the array were changed and are not read by a training run."""

from __future__ import annotations

from dataclasses import replace

from experiments.studies.training import Training
from hardware import COMMAND_LINE, SpecError
from hardware.watched import unread, watched
from simulator import SimulationError
from workloads import load_network

PROBE = "lenet"


def unread_changes(asked: Training) -> list[str]:
    """A sentence about values that were changed and that such a run does not read.

    Found by asking: a small network is trained once on the array, which notes what it is asked.
    """
    changed = [one.key for one in asked.array.settings if one.source == COMMAND_LINE]
    if not changed:
        return []
    seen = set[str]()
    small = replace(asked, network=load_network(PROBE), array=watched(asked.array, seen))
    try:
        replace(small, iterations=1, slowdowns=(), learn=None).run()
    except (SpecError, SimulationError):  # the run itself says what is wrong
        return []
    idle = unread(asked.array, seen)
    names = ", ".join(key for key in changed if key in idle)
    return [f"training does not read {names}, which was changed"] if names else []
