"""Tasks on the unlike units of one device, run on the engine, several batches in flight.

A unit is a worker that does one task at a time. In which order, is settled beforehand:
of one batch by list scheduling along the critical path, of many by a modulo schedule,
in which every batch does the same a period later. The engine then says when: a task begins as
soon as its unit has done what comes before and its needs are met, and is over when
its bytes have crossed the one memory that all units share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from hardware import Device
from planners.order import Kind
from simulator.analysis.period import mean_period, micro_batch_ends, steady_period
from simulator.engine.errors import SimulationError
from simulator.engine.machine import Machine
from simulator.engine.operations import Operation, Program, Worker
from simulator.engine.picoseconds import PICOSECONDS
from simulator.engine.resources import Done
from simulator.engine.timeline import Timeline
from simulator.lowering.units.list_scheduling import UnitTask, list_schedule

MOST_RUNS = 1 << 18
"""Tasks of all batches that are run in search of a steady rhythm."""


class Steady(NamedTuple):
    """The long run of many batches: seconds a batch, how many are in flight, and the run.

    ``exact`` is whether a rhythm was seen; otherwise it is the mean of the second half.
    """

    batch_s: float
    in_flight: int
    exact: bool
    timeline: Timeline


def modulo_schedule(tasks: Sequence[UnitTask], units: int) -> tuple[list[int], int]:
    """When each task of batch 0 starts, and the period after which the next batch does the same.

    The period is the busiest unit's time. Within it each unit does its tasks in
    their order, and a task starts in the first period in which its needs are met by
    then. Tasks of 3 and 2 ps on unit 0, one of 4 between them on unit 1: unit 0 is
    busy for 5, so the first starts at 0, the second at 3 + 2 = 5 (its place is 0 of
    unit 1's period), the third, whose place is 3, at 13, as 8 comes before 9.
    """
    busy = [0] * units
    places = []
    for task in tasks:
        places.append(busy[task.unit])
        busy[task.unit] += task.duration_ps
    period, starts = max(busy), list[int]()
    for task, place in zip(tasks, places, strict=True):
        met = max((starts[b] + tasks[b].duration_ps for b in task.needs), default=0)
        starts.append(place + max(0, -(-(met - place) // period)) * period)
    return starts, period


def run_tasks(
    device: Device,
    units: int,
    tasks: Sequence[UnitTask],
    memory_bytes_per_s: float,
    batches: int = 1,
) -> Timeline:
    """Run so many batches; turns are batches, and worker n of the timeline is unit n.

    Raises SimulationError for a task of no unit, without a duration or before what it
    needs, and for less than one batch.
    """
    if batches < 1 or not memory_bytes_per_s > 0:
        raise SimulationError("at least one batch, and a memory with a bandwidth")
    for i, task in enumerate(tasks):
        known = 0 <= task.unit < units and all(0 <= before < i for before in task.needs)
        if not known or task.duration_ps < 1:
            raise SimulationError(
                f"task {task.name!r}: no such unit, no duration, or it needs a later task"
            )
    starts, period = (
        (list_schedule(tasks, units).starts, 0) if batches == 1 else modulo_schedule(tasks, units)
    )
    workers = tuple(Worker(device, first=u, unit="core", hbm=0) for u in range(units))
    machine = Machine(Program(workers, hbms=(memory_bytes_per_s,)))
    operations = [
        Operation(
            Kind.COMPUTE,
            task.phase,
            task.name,
            duration_ps=task.duration_ps,
            flops=task.flops,
            hbm_bytes=task.hbm_bytes,
        )
        for task in tasks
    ]
    order = sorted(
        (start + batch * period, batch, i)
        for batch in range(batches)
        for i, start in enumerate(starts)
    )
    done: dict[tuple[int, int], Done] = {}
    for _, batch, i in order:
        after = [done[batch, before] for before in tasks[i].needs]
        done[batch, i] = machine.compute(tasks[i].unit, operations[i], batch, after)
    return machine.run()


def in_the_long_run(
    device: Device, units: int, tasks: Sequence[UnitTask], memory_bytes_per_s: float
) -> Steady:
    """Run batches until their rhythm is steady; the last ones hurry, and are left out.

    A rhythm that is faster than the busiest unit ends some day: while a unit with 51 ps
    of work a batch ends each, one with 52 may fall behind, 1 ps a batch.
    """
    work = [sum(task.duration_ps for task in tasks if task.unit == unit) for unit in range(units)]
    starts, period = modulo_schedule(tasks, units)
    ends = (start + task.duration_ps for start, task in zip(starts, tasks, strict=True))
    in_flight = -(-max(ends) // period)
    batches = 4 * in_flight + 16
    while True:
        timeline = run_tasks(device, units, tasks, memory_bytes_per_s, batches)
        micro_batches = batches - in_flight
        found = steady_period(timeline, micro_batches)
        if found is not None and found.micro_batch_ps >= max(work):
            return Steady(found.micro_batch_ps / PICOSECONDS, in_flight, True, timeline)
        if 2 * batches * len(tasks) > MOST_RUNS:
            mean = mean_period(micro_batch_ends(timeline), micro_batches)
            return Steady(mean / PICOSECONDS, in_flight, False, timeline)
        batches *= 2
