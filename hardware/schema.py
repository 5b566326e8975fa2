"""What a spec may contain. Every fault is reported at once, with file and key path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, get_args

from hardware.array import Model
from hardware.device import Roofline
from hardware.formats import OPTIMIZERS, PRECISIONS
from hardware.interconnect.cables import cables
from hardware.interconnect.topologies import DESIGNS
from hardware.spec import Settings, unflatten
from hardware.tables import (
    BYTE_RATE,
    BYTES,
    DURATION,
    EFFICIENCY,
    ENERGY_EACH,
    ENERGY_PER_BYTE,
    FLOP_RATE,
    Table,
    TableError,
    entries,
    flag,
    key,
    list_of,
    number,
    one_of,
    quantity,
    text,
    whole,
)
from hardware.units.table import UnitsTable, units_faults

MOST_KINDS = 16
MOST_MOMENTS = 8
MOST_LEVELS = 8
MOST_CABLES = 256
WIDEST_NUMBER = 16
_DEFAULT = Roofline()
_NUMBER_BYTES = quantity(
    "B", WIDEST_NUMBER, f'a number has at most {WIDEST_NUMBER} B; write it like "2 B"'
)
_SHAPE = list_of(whole(1, 1 << 17), 1, 3)


class PeakTable(Table):
    """``[chip.peak_by_format]``: one chip's peak in formats for which ``chip.peak`` is not."""

    fp64 = key(FLOP_RATE, None)
    fp32 = key(FLOP_RATE, None)
    tf32 = key(FLOP_RATE, None)
    bf16 = key(FLOP_RATE, None)
    fp16 = key(FLOP_RATE, None)
    fp8 = key(FLOP_RATE, None)
    fp4 = key(FLOP_RATE, None)
    int8 = key(FLOP_RATE, None)


FORMATS = tuple(name for name, _ in PeakTable())


class ChipTable(Table):
    """``[chip]``: one chip's cores and their peak together, which ``[units]`` may say instead."""

    cores = key(whole(1, 4096))
    peak = key(FLOP_RATE, None)
    peak_by_format = key(PeakTable, PeakTable())


class HbmTable(Table):
    """``[hbm]``: one chip's memory."""

    capacity = key(BYTES)
    bandwidth = key(BYTE_RATE)


class NetworkTable(Table):
    """``[network]`` of a device: the board's port, each direction; latency per message or hop."""

    bandwidth = key(BYTE_RATE)
    latency = key(DURATION, 0.0)
    efficiency = key(EFFICIENCY, 1.0)
    half_size = key(BYTES, 0.0)


class LinksTable(Table):
    """``[links]``: a chip's links to neighbouring chips, each link and direction."""

    per_chip = key(whole(1, 4096))
    bandwidth = key(BYTE_RATE)
    latency = key(DURATION, 0.0)
    efficiency = key(EFFICIENCY, 1.0)
    half_size = key(BYTES, 0.0)


class RooflineTable(Table):
    """``[roofline]`` of a device: how near a core comes to its peaks."""

    matrix_efficiency = key(EFFICIENCY, _DEFAULT.matrix_efficiency)
    memory_efficiency = key(EFFICIENCY, _DEFAULT.memory_efficiency)
    overhead = key(DURATION, _DEFAULT.overhead_s)
    tile = key(flag, _DEFAULT.tile)
    pad_matrix_unit = key(whole(0, 1 << 16), _DEFAULT.pad_matrix_unit)
    attention_efficiency = key(EFFICIENCY, None)
    host = key(DURATION, _DEFAULT.host_s)
    concurrent = key(number(0, 1), _DEFAULT.concurrent)
    winograd = key(number(1, 16), _DEFAULT.winograd)
    variation = key(number(0, 0.5), _DEFAULT.variation)
    align = key(BYTES, _DEFAULT.align_bytes)


class ArithmeticTable(Table):
    """``[arithmetic]``: bytes of each kind of number, what products compute in, how FLOPs count.

    What is None follows ``element`` (``hardware.Arithmetic.of``).
    """

    element = key(_NUMBER_BYTES, 2.0)
    fused = key(flag, False)
    compute = key(one_of(FORMATS), None)
    attention = key(one_of(FORMATS), None)
    activations = key(_NUMBER_BYTES, None)
    weights = key(_NUMBER_BYTES, None)
    gradients = key(_NUMBER_BYTES, None)
    master = key(_NUMBER_BYTES, None)
    moments = key(list_of(_NUMBER_BYTES, 0, MOST_MOMENTS), None)
    gradient_buffer = key(flag, False)
    dummy_gradients = key(flag, False)


class EnergyTable(Table):
    """``[energy]``: of a multiply-add, of a byte of HBM, of a byte that a board receives."""

    mac = key(ENERGY_EACH)
    hbm = key(ENERGY_PER_BYTE, None)
    transfer = key(ENERGY_PER_BYTE)


class DeviceTable(Table):
    """A device spec: one board."""

    description = key(text, "")
    chips = key(whole(1, 4096))
    chip = key(ChipTable)
    hbm = key(HbmTable)
    network = key(NetworkTable)
    links = key(LinksTable, None)
    roofline = key(RooflineTable, RooflineTable())
    arithmetic = key(ArithmeticTable, ArithmeticTable())
    energy = key(EnergyTable, None)
    units = key(UnitsTable, None)


class EntryTable(Table):
    """One ``[[devices]]`` entry; its other keys change the device (see ``hardware.load``)."""

    device = key(text)
    count = key(whole(1, 1 << 16))


class ArrayNetworkTable(Table):
    """``[network]`` of an array: given here, it holds for every board."""

    bandwidth = key(BYTE_RATE, None)
    latency = key(DURATION, None)
    efficiency = key(EFFICIENCY, None)
    half_size = key(BYTES, None)


class LevelTable(Table):
    """One ``[[topology.levels]]``, innermost first (see ``hardware.topology.Tier``).

    A message of ``half_size`` gets half of the bandwidth that large ones get,
    which is ``efficiency`` of what is written.
    """

    kind = key(one_of(("switch", "ring", "torus", "mesh", "fully_connected", "cables")))
    members = key(whole(2, 1 << 17), 0)
    bandwidth = key(BYTE_RATE)
    latency = key(DURATION, 0.0)
    rails = key(whole(0, 4096), 1)
    oversubscription = key(number(1, 1000), 1.0)
    shape = key(_SHAPE, [])
    dimensions = key(whole(1, 3), 2)
    reduces = key(EFFICIENCY, 0.0)
    cables = key(list_of(cables, 1, MOST_CABLES), [])
    efficiency = key(EFFICIENCY, 1.0)
    half_size = key(BYTES, 0.0)


class TopologyTable(Table):
    """``[topology]``: how boards or chips are joined (see ``hardware.topology``)."""

    kind = key(one_of(DESIGNS), "tree")
    joins = key(one_of(("boards", "chips")), "boards")
    shape = key(_SHAPE, [])
    factor = key(number(0.01, 100), 2.0)
    two_way = key(flag, True)
    bandwidth = key(BYTE_RATE, None)
    latency = key(DURATION, None)
    levels = key(entries(LevelTable, 0, MOST_LEVELS), {})


class ArrayTable(Table):
    """An array spec: how many of which device a node has, how many nodes, how they are joined."""

    description = key(text, "")
    execution: Model | None = key(one_of(get_args(Model)), None)
    nodes = key(whole(1, 1 << 16), 1)
    precision = key(one_of(PRECISIONS), None)
    optimizer = key(one_of(OPTIMIZERS), None)
    stack = key(text, None)
    devices = key(entries(EntryTable, 1, MOST_KINDS))
    network = key(ArrayNetworkTable, ArrayNetworkTable())
    topology = key(TopologyTable, TopologyTable())


def device_faults(table: DeviceTable) -> Iterator[tuple[str, str]]:
    """What does not go together in a device: key and what is wrong."""
    arithmetic, peaks = table.arithmetic, peaks_of(table)
    if table.units is not None:
        yield from units_faults(table.units, arithmetic.element)
        if table.roofline.variation:
            yield "roofline.variation", "a device with [units] has none; leave it out"
    elif table.chip.peak is None:
        yield "chip.peak", 'is missing; write chip.peak = "45 TFLOP/s", or describe [units]'
    if arithmetic.dummy_gradients and not arithmetic.gradient_buffer:
        yield (
            "arithmetic.dummy_gradients",
            "there are dummies beside a buffer of gradients alone; write "
            "arithmetic.gradient_buffer = true",
        )
    if table.roofline.align and "fp32" not in peaks:
        yield (
            "roofline.align",
            "products that are not aligned are computed at the peak of fp32, which is not given; "
            'write chip.peak_by_format.fp32 = "19.5 TFLOP/s"',
        )
    for use, format_ in (("compute", arithmetic.compute), ("attention", arithmetic.attention)):
        if format_ is not None and format_ not in peaks:
            known = f"has {', '.join(peaks)}" if peaks else "is not given"
            yield (
                f"arithmetic.{use}",
                f"{format_!r}: chip.peak_by_format has no peak of it ({known}); "
                f'write chip.peak_by_format.{format_} = "180 TFLOP/s"',
            )
    weights = arithmetic.element if arithmetic.weights is None else arithmetic.weights
    if arithmetic.master is not None and arithmetic.master < weights:
        yield (
            "arithmetic.master",
            f"{arithmetic.master:g} B: the optimizer's copy is no narrower than the weights, "
            f"which have {weights:g} B",
        )


def peaks_of(table: DeviceTable) -> dict[str, float]:
    """One chip's peaks in the formats that ``chip.peak_by_format`` names, FLOP/s."""
    return {name: peak for name, peak in table.chip.peak_by_format if peak is not None}


def check(
    model: type[Table], settings: Settings, file: str, prefix: str = ""
) -> tuple[Any, list[str]]:
    """Validate settings: the tables (None when wrong) and every fault, ``file: key: what``."""
    try:
        return model(unflatten(settings)), []
    except TableError as error:
        return None, [
            f"{origin_of(path, settings, file)}: {prefix}{path}: {what}"
            for path, what in error.found
        ]


def origin_of(path: str, settings: Settings, file: str) -> str:
    """Where a value, one of a table's, or the list that it is in was written; else the file."""
    beneath = (e for key, e in settings.items() if key == path or key.startswith(f"{path}."))
    around = (e for key, e in settings.items() if path.startswith(f"{key}."))
    found = next(beneath, None) or next(around, None)
    return found.origin if found else file
