"""How long one core takes for an operator: the larger of computing and moving, plus overhead.

t = max(FLOPs / (e_m x peak), bytes / (e_b x HBM bandwidth)) + t_0, where a
core has an equal share of its chip's peak, HBM bandwidth and capacity, as on
TPU v2 and v3. Only products are FLOPs, two for a multiply-accumulate;
element-wise work is never slower than its traffic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from hardware import Device
from planners.partition import II, I, Shard
from planners.steps import Phase
from simulator.cost.operators import MAP_BYTES, Map, Operator

TILE = (8, 128)
"""How XLA lays activations out in a TPU's HBM: rows and channels in tiles, either way round."""


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """An operator on a core: FLOPs and HBM bytes, both with padding, and its time."""

    name: str
    phase: Phase
    flops: float
    bytes: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Core:
    """What an operator may count on: rates of one core after their efficiencies, in SI units."""

    flops_per_s: float
    hbm_bytes_per_s: float
    hbm_capacity_bytes: float
    overhead_s: float
    tile: bool
    pad_matrix_unit: int


def core_of(device: Device) -> Core:
    """One core of a device: an equal share of its chip."""
    model, cores = device.roofline, device.cores_per_chip
    return Core(
        flops_per_s=model.matrix_efficiency * device.chip_peak_flops_per_s / cores,
        hbm_bytes_per_s=model.memory_efficiency * device.hbm_bytes_per_s / cores,
        hbm_capacity_bytes=device.hbm_capacity_bytes / cores,
        overhead_s=model.overhead_s,
        tile=model.tile,
        pad_matrix_unit=model.pad_matrix_unit,
    )


def costs(operators: Iterable[Operator], shard: Shard, core: Core) -> list[OperatorCost]:
    """Each operator of a node on one core; none where the core has nothing of it."""
    return [] if shard.empty else [cost(operator, shard, core) for operator in operators]


def cost(operator: Operator, shard: Shard, core: Core) -> OperatorCost:
    """One operator on one core; the shard is not empty."""
    work = flops(operator, shard, core.pad_matrix_unit)
    moved = traffic(operator, shard, core.tile)
    busy = max(work / core.flops_per_s, moved / core.hbm_bytes_per_s)
    seconds = busy + operator.steps * core.overhead_s
    return OperatorCost(operator.name, operator.phase, work, moved, seconds)


def bounds(done: Iterable[OperatorCost], core: Core) -> tuple[float, float, float]:
    """Seconds of these operators that FLOPs, HBM traffic and overheads account for."""
    by_flops: list[float] = []
    by_traffic: list[float] = []
    for item in done:
        compute_s, move_s = item.flops / core.flops_per_s, item.bytes / core.hbm_bytes_per_s
        (by_flops if compute_s >= move_s else by_traffic).append(max(compute_s, move_s))
    overheads_s = core.overhead_s * (len(by_flops) + len(by_traffic))
    return math.fsum(by_flops), math.fsum(by_traffic), overheads_s


def flops(operator: Operator, shard: Shard, unit: int = 0) -> float:
    """FLOPs of an operator; with a matrix ``unit``, as if its weights' matrix filled whole ones.

    Each group's matrix has input channels by output channels, the kernel's elements
    along the side that is summed over (backward that is the outputs' side).
    """
    inputs, outputs = shard.inputs, shard.outputs
    matrix = inputs * outputs
    if unit and operator.macs:
        backward = operator.phase is Phase.BACKWARD
        tall, wide = (outputs, inputs) if backward else (inputs, outputs)
        matrix = padded(tall * operator.kernel, unit) * padded(wide, unit) / operator.kernel
    return 2 * operator.macs * shard.rows * matrix * shard.groups


def traffic(operator: Operator, shard: Shard, tile: bool) -> float:
    """Bytes an operator reads from HBM and writes to it."""
    used = (*operator.reads, *operator.writes)
    maps = sum(tensor.share * map_bytes(tensor, shard, tile) for tensor in used)
    pair = operator.pair_bytes + operator.row_bytes * shard.rows
    weights = pair * shard.inputs + operator.channel_bytes
    return maps + weights * shard.outputs * shard.groups


def map_channels(tensor: Map, shard: Shard) -> float:
    """Channels of a map on a core."""
    if tensor.along is I:
        return tensor.channels
    each = shard.inputs if tensor.along is II else shard.outputs
    return tensor.channels * each * shard.groups


def map_bytes(tensor: Map, shard: Shard, tile: bool) -> float:
    """Bytes of a whole map in HBM; tiled whichever way round wastes less."""
    rows, channels = shard.rows, map_channels(tensor, shard)
    if not tile:
        return rows * channels * tensor.area * MAP_BYTES
    low, high = TILE
    layouts = (
        padded(rows, high) * padded(channels, low),
        padded(rows, low) * padded(channels, high),
    )
    return min(layouts) * tensor.area * MAP_BYTES


def padded(number: float, multiple: int) -> int:
    """The next multiple; a float's rounding error above one does not count."""
    return math.ceil(number / multiple - 1e-9) * multiple
