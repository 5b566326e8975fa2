"""The step that the measured machines ran: ResNet-50, data parallel over a pod's torus.

Each core does every operator on its rows; then gradients of 4 B for each
parameter are all-reduced over the chips, nothing hidden behind backward;
then the optimizer updates. Summing the two cores of a chip is not charged.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from hardware import Device
from planners.steps import Phase
from simulator.roofline import core_of, cost
from simulator.shards import Shard
from simulator.traffic import GRADIENT_BYTES, Operator, operators
from workloads import Network

LINK_BYTES_PER_S = {"tpu-v2": 496e9 / 8, "tpu-v3": 656e9 / 8}
"""An inter-chip link, each way (Jouppi et al., CACM 63(7) 2020); a chip has four."""
POD_SIDE = {"tpu-v2": 16, "tpu-v3": 32}
"""Chips along a side of a pod; larger machines are pods in a row (4,096 chips: 32 x 128)."""
HOP_S = 1.5e-6
"""Latency of a hop: an assumption (0.19 ms of an all-reduce over 32 x 32 chips)."""


@dataclass(frozen=True, slots=True)
class Step:
    """A predicted step by what it spends its time on, in seconds."""

    products_s: float
    communication_s: float
    update_s: float

    @property
    def total_s(self) -> float:
        """The whole step."""
        return self.products_s + self.communication_s + self.update_s


class Pod:
    """Predicts data-parallel steps of one network on pods of any size."""

    def __init__(self, network: Network) -> None:
        self.gradient_bytes = GRADIENT_BYTES * network.parameters
        self._operators = operators(network)

    def step(self, device: Device, cores: int, rows: int) -> Step:
        """A step on ``cores`` of a device with ``rows`` samples each."""
        core = core_of(device)
        spent = {True: 0.0, False: 0.0}
        for operator, shard in self._whole(rows):
            spent[operator.phase is Phase.UPDATE] += cost(operator, shard, core).seconds
        sides = torus(cores // device.cores_per_chip, POD_SIDE[device.name])
        moving = all_reduce_s(self.gradient_bytes, sides, LINK_BYTES_PER_S[device.name], HOP_S)
        return Step(spent[False], moving, spent[True])

    def peak_only_s(self, device: Device, rows: int) -> float:
        """Seconds for the FLOPs of a step at peak: the negative control."""
        model = replace(device.roofline, matrix_efficiency=1.0, pad_matrix_unit=0)
        core = core_of(replace(device, roofline=model))
        work = sum(cost(operator, shard, core).flops for operator, shard in self._whole(rows))
        return work / core.flops_per_s

    def _whole(self, rows: int) -> Iterator[tuple[Operator, Shard]]:
        """Each operator with all of its node's channels."""
        graph = self._operators.graph
        for operator in self._operators.schedule():
            node = graph[operator.node]
            yield operator, Shard(rows, node.in_channels, node.out_channels)


def torus(chips: int, pod_side: int) -> tuple[int, int]:
    """The longer and the shorter side of a torus: as near to square as chips and pods allow."""
    most = min(math.isqrt(chips), pod_side)
    short = next(side for side in range(most, 0, -1) if chips % side == 0)
    return chips // short, short


def all_reduce_s(
    size_bytes: float, sides: tuple[int, int], link_bytes_per_s: float, hop_s: float
) -> float:
    """An all-reduce over a torus that keeps all four directions busy, in lock-step phases.

    (long - 1)(short + 1) / (2 chips) S/B + 4 (long - 1) hops, for sides of two
    and more, as whole boards have. A side of two has one cable instead of two:
    the phases along it take twice as long, and the others wait for them.
    """
    long, short = sides
    share = (long - 1) * (short + 1) / (2 * long * short)
    cables = 1 if short == 2 else 2
    return share * size_bytes / link_bytes_per_s * 2 / cables + 4 * (long - 1) * hop_s
