"""What one worker computes in an iteration: the network's real training step on its own devices."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from hardware import Array, Device, Group, Topology
from hardware.array import Unit
from planners.built_in import data_parallel
from planners.order import Kind, Phase
from simulator.engine.operations import DeviceMemory, Operation
from simulator.engine.picoseconds import duration_ps
from simulator.engine.replay import run
from simulator.lowering.execution import Execution
from simulator.lowering.models import rules_of
from simulator.lowering.step.training_step import training_step
from workloads import Network

INSIDE = Topology("switch")
"""A board alone: its chips are joined as those inside any board, by their own links."""


class LocalStep(NamedTuple):
    """A worker's step as one operation, and how full it makes its memory (published: unknown)."""

    operation: Operation
    memory: tuple[DeviceMemory, ...]


def local_step(
    network: Network, device: Device, unit: Unit, batch: int, execution: Execution
) -> LocalStep:
    """Forward, backward and update of ``batch`` samples on one board, chip or core.

    What has several cores splits the batch among them and sums their
    gradients. FLOPs and joules are one core's. Raises OutOfMemoryError where memory is strict.
    """
    alone = Array("a worker", "", Group(((part_of(device, unit), 1),)), topology=INSIDE)
    plan = data_parallel(network, execution.planned(alone), batch)
    timeline = run(training_step(rules_of(network, plan, alone, execution, folded=True)))
    totals, cores = timeline.totals().values(), alone.group.cores
    on_cores = [r.operation for w in timeline.program.workers for r in w.template]
    bounds = zip(*(operation.bound_s for operation in on_cores), strict=True)
    step = Operation(
        Kind.COMPUTE,
        Phase.FORWARD,
        "local step",
        duration_ps=timeline.makespan_ps,
        flops=math.fsum(total.flops for total in totals) / cores,
        energy_j=math.fsum(total.energy_j for total in totals) / cores,
        # of a single core; several also wait for each other
        bound_s=tuple(map(math.fsum, bounds)) if cores == 1 else (0.0, 0.0, 0.0),  # type: ignore[arg-type]
    )
    return LocalStep(step, timeline.memory)


def part_of(device: Device, unit: Unit) -> Device:
    """A board of one chip's or one core's size, or as it is."""
    if (unit == "chip" and device.chips == 1) or device.cores == 1:
        return device
    if unit == "chip":
        return replace(device, chips=1)
    return device.with_cores(1) if unit == "core" else device


def server_update_ps(device: Device, gradient_bytes: float, model_bytes: float) -> int:
    """A parameter server's update: it reads all gradients and weights and writes weights, in HBM.

    ``device`` is the board that it has, or its part of one.
    """
    rate = device.chips * device.hbm_bytes_per_s * device.roofline.memory_efficiency
    return duration_ps(gradient_bytes + 2 * model_bytes, rate)
