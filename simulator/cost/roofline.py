"""How long one core takes for an operator: the larger of computing and moving, plus overhead.

t = max(FLOPs / (e_m x peak), bytes / (e_b x HBM bandwidth)) + t_0. A node's operators take
no less than their host needs to start them. Where the two are not wholly concurrent, a part of
the shorter is added: 3 ms of computing and 1 ms of moving, a quarter concurrent, are
3.75 ms. A core has an equal share of its chip's
peak, HBM bandwidth and capacity, as on TPU v2 and v3. Only products are FLOPs, two for a
multiply-accumulate;
element-wise work is never slower than its traffic.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from hardware import Device, Roofline, Units
from planners.order import Phase
from planners.partition import II, I, Shard
from simulator.cost.number_bytes import NumberBytes, number_bytes
from simulator.cost.operators import WORK, Map, Minor, Operator
from simulator.cost.units.pricing import price

TILE = (8, 128)
"""How XLA lays a tensor out in a TPU's HBM: its minor dimensions in tiles, either way round."""


WINOGRAD = 9
"""Elements of a kernel that Winograd's algorithm is for: 3 x 3 (its stride is not looked at)."""


@dataclass(frozen=True, slots=True)
class OperatorCost:
    """An operator on a core: FLOPs and HBM bytes, both with padding, and its time.

    ``overhead_s`` is the part of ``seconds`` in which it neither computes nor moves,
    ``compute_s`` what computing alone would take. ``work`` is the operator's, of ``WORK``.
    """

    name: str
    phase: Phase
    flops: float
    bytes: float
    seconds: float
    overhead_s: float
    compute_s: float
    work: int = 2


@dataclass(frozen=True, slots=True)
class Core:
    """What an operator may count on: rates of one core after their efficiencies, in SI units.

    ``bytes`` are those of each kind of number. With ``units`` an operator computes for
    as long as they take for it, whatever their rate. Fused attention, and products of
    computed operands, may have rates of their own (0: that of all products). A
    host starts a step each ``host_s``. Products of computed operands whose rows are no multiple
    of ``align`` numbers have ``vector_flops_per_s`` (0: all are alike). Convolutions of 3 x 3
    are ``winograd`` times as fast. ``concurrent`` is as in ``hardware.Roofline``. To cast an
    activation for a product moves ``cast_bytes`` (0: it computes on activations as they are).
    Fused attention computes ``exponentials_per_s``, and rounds a head's features up to a multiple
    of ``pad_heads``; ``attention_backward`` and ``causal_tile`` are as in ``hardware.Roofline``.
    Each group of a grouped product takes ``group_s`` besides (``hardware.Roofline``).
    """

    flops_per_s: float
    hbm_bytes_per_s: float
    hbm_capacity_bytes: float
    overhead_s: float
    tile: bool
    pad_matrix_unit: int
    bytes: NumberBytes
    pad_heads: int = 0
    causal_tile: int = 0
    exponentials_per_s: float = math.inf
    units: Units | None = None
    whole: bool = True
    attention_flops_per_s: float = 0.0
    attention_backward: float = 1.0
    computed_flops_per_s: float = 0.0
    vector_flops_per_s: float = 0.0
    align: float = 0.0
    host_s: float = 0.0
    blocking: bool = False
    group_s: float = 0.0
    concurrent: float = 1.0
    cast_bytes: float = 0.0
    winograd: float = 1.0

    def rate(self, operator: Operator, shard: Shard | None = None) -> float:
        """FLOP/s of an operator: those of fused attention, of wide operands, of weights.

        Without a shard those of any that is aligned. Products of block-circulant weights may be
        done beside all others, on vector units: they take no time of matrix units.
        """
        if self.units is not None and operator.block > 1:
            return math.inf
        if operator.attention:
            fused = self.attention_flops_per_s or self.flops_per_s
            return fused * (self.attention_backward if operator.phase is Phase.BACKWARD else 1.0)
        if shard and operator.each_sample and self._unaligned(shard):
            return self.vector_flops_per_s
        if operator.each_sample or operator.wide:
            return self.computed_flops_per_s or self.flops_per_s
        small = operator.kernel == WINOGRAD and not operator.flat
        return self.flops_per_s * (self.winograd if small else 1.0)

    def _unaligned(self, shard: Shard) -> bool:
        """Whether rows of one of the matrices are no multiple of ``align`` numbers.

        Of 13,824 features 128 heads have 108 each: 216 B, which is no multiple of 16 B. In
        fp16 such products of a batch of matrices took cuBLAS of 2022 as long as A100's fp32 does.
        """
        return bool(self.align) and bool(shard.inputs % self.align or shard.outputs % self.align)


def core_of(device: Device, *, whole: bool = True, inference: bool = False) -> Core:
    """One core of a device: an equal share of its chip.

    What is not ``whole`` samples and channels, but fractions of them, fills no
    tiles and no matrix units: it is not padded. Of ``inference`` nothing is held of a weight
    but itself.
    """
    each = number_bytes(device.arithmetic)
    model, cores = device.roofline, device.cores_per_chip
    kernels = model if device.units is None else Roofline()  # units price products themselves
    share, narrow = kernels.matrix_efficiency, device.product_bytes or each.activation
    wide = share
    if narrow < each.activation and kernels.wide_efficiency is not None:
        wide = kernels.wide_efficiency
    fused = wide if kernels.attention_efficiency is None else kernels.attention_efficiency
    of_chip = cores * model.slowest  # what the slowest chip does less, all do
    peak = (device.chip_attention_flops_per_s or device.chip_peak_flops_per_s) / of_chip
    exponentials = None if device.units else device.chip_exponentials_per_s  # units have their own
    return Core(
        flops_per_s=share * device.chip_peak_flops_per_s / of_chip,
        hbm_bytes_per_s=model.memory_efficiency * device.hbm_bytes_per_s / of_chip,
        hbm_capacity_bytes=device.hbm_capacity_bytes / cores,
        overhead_s=model.overhead_s,
        tile=model.tile and whole,
        pad_matrix_unit=kernels.pad_matrix_unit if whole else 0,
        pad_heads=kernels.pad_heads if whole else 0,
        causal_tile=kernels.causal_tile,
        exponentials_per_s=(exponentials or math.inf) / of_chip,
        bytes=each._replace(state=each.weight, buffer=0.0, dummy=0.0) if inference else each,
        units=device.units,
        whole=whole or device.units is None,
        attention_flops_per_s=fused * peak,
        attention_backward=kernels.attention_backward,
        computed_flops_per_s=wide * peak,
        vector_flops_per_s=share * (device.chip_vector_flops_per_s or 0.0) / of_chip,
        align=kernels.align_bytes / each.activation,
        host_s=model.host_s,
        blocking=device.units is None and model.host_s > 0 and model.blocking,
        group_s=model.group_s,
        concurrent=kernels.concurrent,
        winograd=kernels.winograd,
        cast_bytes=each.activation + (1 if inference else 2) * narrow
        if narrow < each.activation
        else 0.0,
    )


def costs(operators: Sequence[Operator], shard: Shard, core: Core) -> list[OperatorCost]:
    """Each operator of a node on one core; none where the core has nothing of it.

    Its host starts them one after the other while the core works: what all of them take
    less than that is added to the last. Ten of 20 us take 0.7 ms with a host of 70 us, and
    so does one of 610 us before nine of 10 us. A ``blocking`` host starts none while one before
    it runs: ten of 20 us take 0.9 ms.
    """
    if shard.empty:
        return []
    operators = [one for one in operators if not one.keeps_width(core.bytes.activation)]
    done = [
        one
        for operator in operators
        for one in (
            *casts(operator, shard, core),
            cost(operator, shard, core),
            *adds(operator, shard, core),
        )
    ]
    steps = sum(operator.steps for operator in operators)
    busy_s = 0.0 if core.blocking else math.fsum(one.seconds for one in done)
    waits_s = core.host_s * steps - busy_s
    if done and waits_s > 0:
        last = done[-1]
        done[-1] = replace(
            last, seconds=last.seconds + waits_s, overhead_s=last.overhead_s + waits_s
        )
    return done


def casts(operator: Operator, shard: Shard, core: Core) -> Iterator[OperatorCost]:
    """What is cast at an operator, by a kernel of its own, where products compute narrower.

    The gradient of the weights reads what forward and backward have cast: they write it
    twice, once transposed. Of an activation in bfloat16 2 B are read for fp8 and 1 B
    written twice, which is 4 B; in inference once, 3 B. Weights are cast once a step, which is
    not counted.
    """
    if not core.cast_bytes:
        return
    for tensor in operator.casts:
        each = core.cast_bytes / core.bytes.activation
        moved = each * map_bytes(tensor, shard, core) * tensor.share
        yield _moving(operator, "cast", moved, core)


def adds(operator: Operator, shard: Shard, core: Core) -> Iterator[OperatorCost]:
    """The kernel that adds a product's gradient of weights to those of micro-batches before."""
    if operator.macs and core.bytes.adding and operator.pair.gradients:
        yield _moving(operator, "added", core.bytes.adding * _gradients(operator, shard), core)


def _moving(operator: Operator, what: str, moved: float, core: Core) -> OperatorCost:
    """A kernel beside an operator, which moves bytes alone."""
    seconds = moved / core.hbm_bytes_per_s + core.overhead_s
    name = f"{operator.name} {what}"
    return OperatorCost(name, operator.phase, 0.0, moved, seconds, core.overhead_s, 0.0)


def _gradients(operator: Operator, shard: Shard) -> float:
    """Numbers of gradients of weights that a product writes on a core."""
    return operator.pair.gradients * shard.inputs * shard.outputs * shard.groups


def cost(operator: Operator, shard: Shard, core: Core) -> OperatorCost:
    """One operator on one core, whatever its host does; the shard is not empty."""
    work = flops(operator, shard, core.pad_matrix_unit, core.pad_heads)
    moved = traffic(operator, shard, core)
    compute_s = work / core.rate(operator, shard)
    scores = operator.exponentials * shard.rows * shard.inputs * shard.outputs * shard.groups
    compute_s += scores / core.exponentials_per_s
    compute_s *= in_tiles(operator, core.causal_tile)
    if core.units is not None:
        of = price(operator, shard, core.units, core.whole, core.bytes.activation)
        compute_s, moved = of.busy_s, moved + of.missed_bytes
    shorter_s, busy_s = sorted((compute_s, moved / core.hbm_bytes_per_s))
    overhead_s = operator.steps * core.overhead_s + (1 - core.concurrent) * shorter_s
    if operator.grouped and operator.macs:
        overhead_s += core.group_s * shard.groups
    if core.units is not None:  # several at once: each waits for its own start
        overhead_s = max(overhead_s, operator.steps * core.host_s - busy_s)
    seconds = busy_s + overhead_s
    name, phase = operator.name, operator.phase
    times = seconds, overhead_s, compute_s
    return OperatorCost(name, phase, work, moved, *times, operator.work)


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


def by_work(done: Sequence[OperatorCost]) -> tuple[float, ...]:
    """Seconds of these operators for each of ``WORK``."""
    return tuple(
        math.fsum(one.seconds for one in done if one.work == work) for work in range(len(WORK))
    )


def flops(operator: Operator, shard: Shard, unit: int = 0, heads: int = 0) -> float:
    """FLOPs of an operator; with a matrix ``unit``, as if its weights' matrix filled whole ones.

    Each group's matrix has input channels by output channels, the kernel's elements
    along the side that is summed over (backward that is the outputs' side). In fused
    attention a head's features are rounded up to a multiple of ``heads`` (0: of the unit).
    """
    inputs, outputs = shard.inputs, shard.outputs
    matrix = inputs * outputs
    multiple = (heads or unit) if operator.attention else unit
    if multiple and operator.macs and operator.block == 1:
        backward = operator.phase is Phase.BACKWARD
        tall, wide = (outputs, inputs) if backward else (inputs, outputs)
        if operator.attention:  # each product has one of the two along one of its sides
            matrix *= (padded(inputs, multiple) + padded(outputs, multiple)) / (inputs + outputs)
        else:
            matrix = padded(tall * operator.kernel, unit) * padded(wide, unit) / operator.kernel
    return 2 * operator.macs * shard.rows * matrix * shard.groups


def in_tiles(operator: Operator, tile: int) -> float:
    """How many times as many scores causal attention computes in whole tiles as it needs.

    Of n keys a query sees (n + 1) / 2 on average. All queries of a tile compute with the keys that
    its last one sees, ``tile`` / 2 more on average: of 2,048 keys in tiles of 384 1.19 times as
    many scores.
    """
    if not (tile and operator.keys):
        return 1.0
    return max(1.0, min(2 * operator.keys, operator.keys + tile) / (operator.keys + 1))


def traffic(operator: Operator, shard: Shard, core: Core) -> float:
    """Bytes an operator reads from HBM and writes to it."""
    if operator.keeps_width(core.bytes.activation):
        return 0.0
    used, each = (*operator.reads, *operator.writes), core.bytes
    maps = sum(tensor.share * map_bytes(tensor, shard, core) for tensor in used)
    pair = operator.pair.bytes(each) + operator.row.bytes(each) * shard.rows
    parameters = (pair * shard.inputs + operator.channel.bytes(each)) * shard.outputs
    parameters += operator.entry.bytes(each) * shard.inputs
    moved = maps + parameters * shard.groups
    if operator.macs and operator.pair.gradients:
        moved += each.more * _gradients(operator, shard)
    return moved


def map_channels(tensor: Map, shard: Shard) -> float:
    """Channels of a map on a core."""
    if tensor.along is I:
        return tensor.channels
    each = shard.inputs if tensor.along is II else shard.outputs
    return tensor.channels * each * shard.groups


def map_rows(tensor: Map, shard: Shard) -> float:
    """Samples of a map on a core: as many less as it has less of all positions."""
    return shard.rows / shard.positions if tensor.whole else shard.rows


def map_bytes(tensor: Map, shard: Shard, core: Core) -> float:
    """Bytes of a whole map in HBM; its minor dimensions tiled whichever way wastes less."""
    rows, channels = map_rows(tensor, shard), map_channels(tensor, shard)
    each = tensor.each_bytes or core.bytes.activation
    if not core.tile:
        return rows * channels * tensor.area * each
    heads = shard.groups if tensor.minor is Minor.HEADS else 1
    if tensor.minor is Minor.SAMPLES:
        tiles = tiled(rows, channels) * tensor.area
    else:
        tiles = tiled(tensor.area, channels / heads) * heads * rows
    return tiles * each


def tiled(tall: float, wide: float) -> int:
    """Elements of so many tiles as two dimensions need."""
    low, high = TILE
    ways = padded(tall, high) * padded(wide, low), padded(tall, low) * padded(wide, high)
    return min(ways)


def padded(number: float, multiple: int) -> int:
    """The next multiple; a float's rounding error above one does not count."""
    return math.ceil(number / multiple - 1e-9) * multiple
