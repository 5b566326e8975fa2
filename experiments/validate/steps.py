"""The step that the measured machines ran: ResNet-50, data parallel over a pod's torus.

A whole step of the deployed model on the event engine: each core does every
operator on its rows; then all gradients together are all-reduced, nothing
hidden behind backward; then the optimizer updates.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from experiments.studies.case import Case, step_of
from hardware import Array, Device, Group, Topology, load_array
from planners.order import Kind, Phase
from planners.partition import Shard
from simulator import PICOSECONDS, Execution, shares
from simulator.cost.operators import Operators
from simulator.cost.roofline import flops
from simulator.cost.training_operators import operators
from workloads import Network

ONE_ALL_REDUCE = Execution("deployed", overlap=False, bucket_bytes=math.inf)
"""Exchanges hide nothing; gradients are combined, as XLA does with all-reduces of small tensors."""


@dataclass(frozen=True, slots=True)
class PodStep:
    """A predicted step, in seconds, and what of it cores do not compute, or update weights."""

    total_s: float
    communication_s: float
    update_s: float


class Pod:
    """Predicts data-parallel steps of one network on pods of any size.

    ``progress`` hears of each simulated step.
    """

    def __init__(
        self, network: Network, progress: Callable[[str], None] = lambda done: None
    ) -> None:
        self.network = network
        self.progress = progress

    def step(self, device: Device, cores: int, rows: int) -> PodStep:
        """A step on ``cores`` of a device with ``rows`` samples each."""
        step = _simulated(self.network, array_of(device, cores), cores * rows)
        self.progress(f"{device.name}-{cores}, {rows} a core")
        return step

    def peak_only_s(self, device: Device, rows: int) -> float:
        """Seconds for the FLOPs of a step at peak: the negative control."""
        graph = self._operators.graph
        work = sum(
            flops(op, Shard(rows, graph[op.node].in_channels, graph[op.node].out_channels))
            for op in self._operators.schedule()
        )
        return work / (device.chip_peak_flops_per_s / device.cores_per_chip)

    @cached_property
    def _operators(self) -> Operators:
        return operators(self.network)


@lru_cache(maxsize=1024)
def _simulated(network: Network, array: Array, batch: int) -> PodStep:
    _, timeline = step_of(Case(network, "data_parallel", array, batch, execution=ONE_ALL_REDUCE))
    total_s, update = timeline.iteration_s, timeline.totals()[Phase.UPDATE, Kind.COMPUTE]
    communication_s = total_s * (1 - shares(timeline).computing)
    return PodStep(total_s, communication_s, update.core_ps / timeline.cores / PICOSECONDS)


def array_of(device: Device, cores: int) -> Array:
    """So many cores of a device on inter-chip links: one board's mesh, or a torus."""
    name, boards = f"{device.name}-{cores}", cores // device.cores
    if boards == 1:
        topology = load_array(f"{device.name.partition(',')[0]}-8").topology
    else:
        topology = Topology("torus", "chips", torus(boards * device.chips, pod_side(device.name)))
    return Array(name, "", Group(((device, boards),)), topology=topology)


def pod_side(device: str) -> int:
    """Chips along the shorter side of a device's pod; larger machines are pods in a row."""
    pod = load_array(f"{device}-pod")
    ((board, boards),) = pod.group.kinds
    return min(pod.topology.shape_of(boards * board.chips))


def torus(chips: int, side: int) -> tuple[int, int]:
    """The longer and the shorter side of a torus: as near to square as chips and pods allow."""
    most = min(math.isqrt(chips), side)
    short = next(side for side in range(most, 0, -1) if chips % side == 0)
    return chips // short, short
