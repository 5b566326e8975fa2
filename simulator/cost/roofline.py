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

from hardware import Device, Units
from planners.order import Phase
from planners.partition import II, I, Shard
from simulator.cost.number_bytes import NumberBytes, number_bytes
from simulator.cost.operators import Map, Minor, Operator
from simulator.cost.units.pricing import price

TILE = (8, 128)
"""How XLA lays a tensor out in a TPU's HBM: its minor dimensions in tiles, either way round."""


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """An operator on a core: FLOPs and HBM bytes, both with padding, and its time.

    ``overhead_s`` is the part of ``seconds`` in which it neither computes nor moves,
    ``compute_s`` what computing alone would take.
    """

    name: str
    phase: Phase
    flops: float
    bytes: float
    seconds: float
    overhead_s: float
    compute_s: float


@dataclass(frozen=True, slots=True)
class Core:
    """What an operator may count on: rates of one core after their efficiencies, in SI units.

    ``bytes`` are those of each kind of number. With ``units`` an operator computes for
    as long as they take for it, whatever their rate.
    """

    flops_per_s: float
    hbm_bytes_per_s: float
    hbm_capacity_bytes: float
    overhead_s: float
    tile: bool
    pad_matrix_unit: int
    bytes: NumberBytes
    units: Units | None = None
    whole: bool = True


def core_of(device: Device, *, whole: bool = True, inference: bool = False) -> Core:
    """One core of a device: an equal share of its chip.

    What is not ``whole`` samples and channels, but fractions of them, fills no
    tiles and no matrix units: it is not padded. Of ``inference`` nothing is held of a weight
    but itself.
    """
    each = number_bytes(device.arithmetic)
    model, cores = device.roofline, device.cores_per_chip
    return Core(
        flops_per_s=model.matrix_efficiency * device.chip_peak_flops_per_s / cores,
        hbm_bytes_per_s=model.memory_efficiency * device.hbm_bytes_per_s / cores,
        hbm_capacity_bytes=device.hbm_capacity_bytes / cores,
        overhead_s=model.overhead_s,
        tile=model.tile and whole,
        pad_matrix_unit=model.pad_matrix_unit if whole else 0,
        bytes=each._replace(state=each.weight) if inference else each,
        units=device.units,
        whole=whole or device.units is None,
    )


def costs(operators: Iterable[Operator], shard: Shard, core: Core) -> list[OperatorCost]:
    """Each operator of a node on one core; none where the core has nothing of it."""
    return [] if shard.empty else [cost(operator, shard, core) for operator in operators]


def cost(operator: Operator, shard: Shard, core: Core) -> OperatorCost:
    """One operator on one core; the shard is not empty."""
    work = flops(operator, shard, core.pad_matrix_unit)
    moved = traffic(operator, shard, core)
    compute_s = work / core.flops_per_s
    if core.units is not None:
        of = price(operator, shard, core.units, core.whole, core.bytes.activation)
        compute_s, moved = of.busy_s, moved + of.missed_bytes
    busy_s = max(compute_s, moved / core.hbm_bytes_per_s)
    overhead_s = operator.steps * core.overhead_s
    seconds = busy_s + overhead_s
    return OperatorCost(operator.name, operator.phase, work, moved, seconds, overhead_s, compute_s)


def bounds(done: Iterable[OperatorCost], core: Core) -> tuple[float, float, float]:
    """Seconds of these operators that FLOPs, HBM traffic and overheads account for.

    They sum to the operators' seconds: an operator's time is its larger bound
    and the overhead of each of its steps.
    """
    by_flops: list[float] = []
    by_traffic: list[float] = []
    overheads_s: list[float] = []
    for item in done:
        compute_s, move_s = item.compute_s, item.bytes / core.hbm_bytes_per_s
        (by_flops if compute_s >= move_s else by_traffic).append(max(compute_s, move_s))
        overheads_s.append(item.overhead_s)
    return math.fsum(by_flops), math.fsum(by_traffic), math.fsum(overheads_s)


def flops(operator: Operator, shard: Shard, unit: int = 0) -> float:
    """FLOPs of an operator; with a matrix ``unit``, as if its weights' matrix filled whole ones.

    Each group's matrix has input channels by output channels, the kernel's elements
    along the side that is summed over (backward that is the outputs' side).
    """
    inputs, outputs = shard.inputs, shard.outputs
    matrix = inputs * outputs
    if unit and operator.macs and operator.block == 1:
        backward = operator.phase is Phase.BACKWARD
        tall, wide = (outputs, inputs) if backward else (inputs, outputs)
        matrix = padded(tall * operator.kernel, unit) * padded(wide, unit) / operator.kernel
    return 2 * operator.macs * shard.rows * matrix * shard.groups


def traffic(operator: Operator, shard: Shard, core: Core) -> float:
    """Bytes an operator reads from HBM and writes to it."""
    used, each = (*operator.reads, *operator.writes), core.bytes
    maps = sum(tensor.share * map_bytes(tensor, shard, core) for tensor in used)
    pair = operator.pair.bytes(each) + operator.row.bytes(each) * shard.rows
    parameters = pair * shard.inputs + operator.channel.bytes(each)
    return maps + parameters * shard.outputs * shard.groups


def map_channels(tensor: Map, shard: Shard) -> float:
    """Channels of a map on a core."""
    if tensor.along is I:
        return tensor.channels
    each = shard.inputs if tensor.along is II else shard.outputs
    return tensor.channels * each * shard.groups


def map_bytes(tensor: Map, shard: Shard, core: Core) -> float:
    """Bytes of a whole map in HBM; its minor dimensions tiled whichever way wastes less."""
    rows, channels = shard.rows, map_channels(tensor, shard)
    if not core.tile:
        return rows * channels * tensor.area * core.bytes.activation
    heads = shard.groups if tensor.minor is Minor.HEADS else 1
    if tensor.minor is Minor.SAMPLES:
        tiles = tiled(rows, channels) * tensor.area
    else:
        tiles = tiled(tensor.area, channels / heads) * heads * rows
    return tiles * core.bytes.activation


def tiled(tall: float, wide: float) -> int:
    """Elements of so many tiles as two dimensions need."""
    low, high = TILE
    return min(padded(tall, high) * padded(wide, low), padded(tall, low) * padded(wide, high))


def padded(number: float, multiple: int) -> int:
    """The next multiple; a float's rounding error above one does not count."""
    return math.ceil(number / multiple - 1e-9) * multiple
