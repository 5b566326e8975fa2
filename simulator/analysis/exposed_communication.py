"""Where a core's time goes when exchanges overlap with computing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import NamedTuple

from hardware import Array, Wires
from simulator.analysis.stalls import core_steps
from simulator.engine.timeline import Timeline


class Shares(NamedTuple):
    """How an average core spends the step, as fractions that sum to one."""

    computing: float
    communicating: float
    waiting: float


def shares(timeline: Timeline) -> Shares:
    """Computing, communicating and waiting, averaged over all cores.

    Communicating is only what is exposed: the core computes nothing, and what it waits for is
    under way. What is left is waiting for others, also of cores that are in no stage. Of several
    batches it is what one takes in the long run, without filling and draining the pipeline.
    """
    whole = timeline.long_run_ps * (timeline.cores + cores_in_no_stage(timeline))
    if not whole:
        return Shares(0.0, 0.0, 0.0)
    steps = list(core_steps(timeline))
    computing = sum(step.computing * step.cores for step in steps)
    exposed = sum(step.exposed * step.cores for step in steps)
    exposed = max(min(exposed, whole - computing), 0)
    return Shares(computing / whole, exposed / whole, (whole - computing - exposed) / whole)


def cores_in_no_stage(timeline: Timeline) -> int:
    """Cores of the array that no worker of the step has."""
    wires = timeline.program.wires
    return wires.cores - timeline.cores if isinstance(wires, Wires) else 0


def computing_by_kind(timeline: Timeline, array: Array) -> list[float]:
    """Of each kind of the array's chips, which part of the step a mean core of it computes.

    Cores that do nothing count. Kinds of one name and power have the mean of both.
    """
    computing, workers, there = Counter[Hashable](), Counter[Hashable](), Counter[Hashable]()
    for step in core_steps(timeline):
        kind = step.worker.device.name, getattr(step.worker.device, "power", None)
        computing[kind] += step.computing * step.cores
        workers[kind] += step.cores
    kinds = [(device.name, device.power) for device, _ in array.group.chips]
    for one, (device, chips) in zip(kinds, array.group.chips, strict=True):
        there[one] += chips * device.cores_per_chip
    cores = there if isinstance(timeline.program.wires, Wires) else workers
    whole = {kind: timeline.long_run_ps * cores[kind] for kind in kinds}
    return [computing[kind] / whole[kind] if whole[kind] else 0.0 for kind in kinds]
