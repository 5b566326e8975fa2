"""What no plan at all undercuts: a step's work, spread over all devices without any loss.

Every product's work is done by somebody. So for any weights of the devices
that sum to 1, the slowest device takes no less than the weighted mean of all:

    a device of 30 FLOP/s and one of 10, 100 FLOPs: weights 3/4 and 1/4
    3/4 * x / 30 + 1/4 * (100 - x) / 10 = 2.5 s, however x splits the work

Exchanges, idle devices and padding only add to that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

from hardware import Array, Group
from hardware.array import cores_in
from planners.order import Phase
from planners.order import flops as flops_of
from planners.partition import Shard
from planners.sizing import sizing, whole
from simulator.cost.roofline import Core, core_of, flops, traffic
from simulator.cost.training_operators import operators
from simulator.lowering.execution import Execution
from workloads import Network, partition_graph
from workloads.kept import once_for_each

MIXES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Weights that are tried: from those of peaks to those of HBM bandwidths."""
PHASES = (Phase.FORWARD, Phase.BACKWARD, Phase.GRADIENT, Phase.UPDATE)


def work_bound_s(network: Network, array: Array, batch: int, execution: Execution) -> float:
    """Seconds that no plan of any types and shares undercuts, on all devices or on some."""
    if execution.model == "published":
        phases = 1 if execution.inference else 3
        return _published_s(network, array.group, batch, phases)
    return _deployed_s(network, array.group, batch, execution)


def _published_s(network: Network, group: Group, batch: int, phases: int) -> float:
    """All FLOPs of the first phases at the peak of all boards.

    A dot product of n terms is 2n - 1 FLOPs, and cut in d parts 2n - d: so
    that much less of each is sure.
    """
    parts = 0 if group.arithmetic.fused else group.size
    found = _published_flops(network)(batch, phases)
    work = (max(0.0, full - parts * saved) for full, saved in found)
    return math.fsum(work) / group.peak_flops_per_s


@once_for_each
def _published_flops(network: Network) -> Callable[[int, int], list[tuple[float, float]]]:
    """Of every product its FLOPs, fused, and how many fewer each part of it has.

    By batch and number of phases.

    Kept, as comparisons ask for it again for every planner and array.
    """

    @lru_cache(maxsize=8)
    def of(batch: int, phases: int) -> list[tuple[float, float]]:
        work = []
        graph = partition_graph(network)
        each, every = sizing(graph).each, whole(graph)
        for once, fused in zip(each(batch, every), each(batch, every, fused=True), strict=True):
            for phase in PHASES[:phases]:
                full = flops_of(phase, fused)
                work.append((full, full - flops_of(phase, once)))
        return work

    return of


def _deployed_s(network: Network, group: Group, batch: int, execution: Execution) -> float:
    cores = [
        (core_of(device, whole=execution.whole_shards), cores_in(device, group.unit) * count)
        for device, count in group.kinds
    ]
    work = list(_work(network, batch, [core for core, _ in cores], inference=execution.inference))
    return max(_weighted_s(work, cores, mix) for mix in MIXES)


def _work(
    network: Network, batch: int, cores: Sequence[Core], *, inference: bool
) -> Iterator[tuple[float, float]]:
    """FLOPs and HBM bytes of every operator, of whole layers and without padding.

    FLOPs that are done faster than most (attention, Winograd) are counted as so many fewer.
    """
    plain = Core(1.0, 1.0, 1.0, 0.0, tile=False, pad_matrix_unit=0, bytes=cores[0].bytes)
    step = operators(network, inference=inference)
    for node, work in zip(step.graph, step.nodes, strict=True):
        outputs = node.out_channels / node.groups
        shard = Shard(batch, node.in_channels / node.groups, outputs, node.groups)
        for phase in PHASES:
            for operator in work.of(phase):
                faster = max(core.rate(operator) / core.flops_per_s for core in cores)
                yield flops(operator, shard) / faster, traffic(operator, shard, plain)


def _weighted_s(
    work: Sequence[tuple[float, float]], cores: Sequence[tuple[Core, int]], mix: float
) -> float:
    """The weighted mean of what cores take, for weights between those of FLOPs and of HBM."""
    peak = sum(core.flops_per_s * many for core, many in cores)
    hbm = sum(core.hbm_bytes_per_s * many for core, many in cores)
    weights = [
        (1 - mix) * core.flops_per_s / peak + mix * core.hbm_bytes_per_s / hbm for core, _ in cores
    ]
    pairs = [(weight, core) for weight, (core, _) in zip(weights, cores, strict=True)]
    flop_s = min(weight / core.flops_per_s for weight, core in pairs)
    byte_s = min(weight / core.hbm_bytes_per_s for weight, core in pairs)
    if any(core.units is not None for core, _ in cores):  # one computes while another moves
        flops, moved = (math.fsum(column) for column in zip(*work, strict=True))
        return max(flops * flop_s, moved * byte_s)
    return math.fsum(max(done * flop_s, moved * byte_s) for done, moved in work)
