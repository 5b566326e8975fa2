"""What device and array specs may contain, and the devices and topologies that they describe.

A table's fields are called as those of the class that it describes (``roofline.overhead_s``);
its keys in a file are shorter (``overhead``), for values there have units of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BeforeValidator, Field, create_model, model_validator

from hardware.array import Group, Model
from hardware.device import Arithmetic, ChipLinks, Device, Energy, Power, Roofline
from hardware.interconnect.cables import Cable, cables
from hardware.interconnect.topologies import DESIGNS
from hardware.quantity import parse_quantity
from hardware.reader import (
    ByteRate,
    Bytes,
    Count,
    Duration,
    EnergyEach,
    EnergyPerByte,
    Fault,
    FlopRate,
    Frequency,
    HalfSize,
    Price,
    Share,
    Table,
    Text,
    one_of,
    optional,
    table_of,
    validated,
    whole,
)
from hardware.spec import Settings, unflatten
from hardware.topology import (
    TIERS,
    Oversubscription,
    Protocol,
    Rails,
    Reduces,
    Shape,
    Tier,
    TierKind,
    Topology,
    protocol,
)
from hardware.units import MatrixUnit, Units, VectorUnit

Format = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "fp4", "int8"]
"""A format of numbers that products compute in."""
FORMATS: tuple[Format, ...] = get_args(Format)
FORMAT_OF_WIDTH = {8.0: "fp64", 4.0: "fp32", 2.0: "bf16", 1.0: "fp8"}
"""What products compute in where ``arithmetic.compute`` does not say, by the element's bytes."""
PRECISIONS = {"bf16": 2, "fp16": 2, "fp8": 2, "fp4": 2, "int8": 2, "fp32": 4, "tf32": 4}
"""Bytes of an activation, and of a weight as operators read it."""
NARROW = {"fp8": 1.0, "fp4": 0.5, "int8": 1.0}
"""Formats that are for products with weights alone, whose operands are cast; bytes of a number."""
OPTIMIZERS = {"adam": 2, "sgd": 1, "adafactor": 0}
"""Moments of four bytes kept for each parameter.

Adam has two, SGD its momentum; of Adafactor's two, rows and columns are kept, which are nothing
beside the weights.
"""
MOST_KINDS = 16
MOST_LEVELS = 8
MOST_CABLES = 256
MOST_UNITS = 16

CableText = Annotated[list[Cable], BeforeValidator(cables)]
ProtocolText = Annotated[Protocol, BeforeValidator(protocol)]
MOST_PROTOCOLS = 8


class ChipTable(Table):
    """``[chip]``: one chip's cores and their peak together, which ``[units]`` may say instead.

    ``peak_by_format`` has its peak in formats for which ``peak`` is not. ``exponentials`` are
    those that its special-function units compute, one FLOP each.
    """

    cores: Count
    peak: FlopRate | None = None
    exponentials: FlopRate | None = None
    peak_by_format: dict[Format, FlopRate] = Field(default={})

    @property
    def peaks(self) -> dict[str, float]:
        """Peaks by format in the order of FORMATS, FLOP/s."""
        return {name: self.peak_by_format[name] for name in FORMATS if name in self.peak_by_format}


class HbmTable(Table):
    """``[hbm]``: one chip's memory."""

    capacity: Bytes
    bandwidth: ByteRate


class LinkTable(Table):
    """What a link does in each direction, and its latency per message or hop.

    A message of ``half_size`` gets half of the bandwidth that large ones get,
    which is ``efficiency`` of what is written.
    """

    bandwidth: ByteRate
    latency: Duration = 0.0
    efficiency: Share = 1.0
    half_size: HalfSize = 0.0

    def reached(self, share: float = 1.0) -> tuple[float, float, float]:
        """Bandwidth and latency that messages see, and the half size, of which a part of it comes.

        One of s bytes takes latency + (s + half size) / bandwidth: half of the
        bandwidth is reached at the half size, nearly all by large ones.
        """
        bytes_per_s = self.bandwidth * self.efficiency * share
        return bytes_per_s, self.latency + self.half_size / bytes_per_s, self.half_size


class LinksTable(LinkTable):
    """``[links]``: a chip's links to neighbouring chips, each link and direction."""

    per_chip: Count


RooflineTable: Any = table_of(Roofline, "slowest")
_Format = (Format | None, None)
ArithmeticTable: Any = table_of(Arithmetic, compute=_Format, attention=_Format)
"""What products, and those of attention, compute in, beside the fields of the class."""
PowerTable: Any = table_of(Power)
MatrixTable: Any = table_of(MatrixUnit)
VectorTable: Any = table_of(VectorUnit)
"""Entries of [[units.matrix]] work at once; equal units of one share each product."""


class EnergyTable(Table):
    """``[energy]``: of a multiply-add, of a byte of HBM, of a byte that a board receives."""

    mac_j: EnergyEach = Field(alias="mac")
    hbm_j_per_byte: EnergyPerByte = Field(default=0.0, alias="hbm")
    transfer_j_per_byte: EnergyPerByte = Field(alias="transfer")


class UnitsTable(Table):
    """``[units]``: those of one core, instead of ``chip.peak``."""

    clock: Frequency
    buffer: Bytes
    matrix: dict[str, MatrixTable] = Field(min_length=1, max_length=MOST_UNITS)
    vector: dict[str, VectorTable] = Field(min_length=1, max_length=MOST_UNITS)


class DeviceTable(Table):
    """A device spec: one board."""

    description: Text = ""
    chips: Count
    chip: ChipTable
    hbm: HbmTable
    network: LinkTable
    links: LinksTable | None = None
    roofline: RooflineTable = RooflineTable()
    arithmetic: ArithmeticTable = ArithmeticTable()
    energy: EnergyTable | None = None
    power: PowerTable | None = None
    price: Price | None = None
    units: UnitsTable | None = None


class EntryTable(Table):
    """One ``[[devices]]`` entry; its other keys change the device (see ``hardware.load``)."""

    device: Text
    count: Annotated[int, whole(1, 1 << 16)]


ArrayNetworkTable: Any = create_model("ArrayNetwork", __base__=Table, **optional(LinkTable))
"""``[network]`` of an array: given here, it holds for every board."""


class LevelTable(LinkTable):
    """One ``[[topology.levels]]``, innermost first (see ``hardware.topology.Tier``)."""

    bandwidth: ByteRate = 0.0
    kind: TierKind
    members: Annotated[int, whole(2, 1 << 17)] = 0
    rails: Rails = 1
    oversubscription: Oversubscription = 1.0
    shape: Shape = ()
    dimensions: Annotated[int, whole(1, 3)] = 2
    reduces: Reduces = 0.0
    cables: list[CableText] = Field(default=[], min_length=1, max_length=MOST_CABLES)
    copy_bytes_per_s: ByteRate = Field(default=0.0, alias="copy")
    protocols: list[ProtocolText] = Field(default=[], max_length=MOST_PROTOCOLS)

    @model_validator(mode="after")
    def _own_size(self) -> LevelTable:
        if self.half_size and not self.bandwidth:
            raise ValueError("half_size is of a bandwidth; write that too, or links.half_size")
        return self


TopologyTable: Any = table_of(
    *(Topology, "share"),
    kind=(Annotated[str, one_of(DESIGNS)], "tree"),
    levels=(dict[str, LevelTable], Field(default={}, max_length=MOST_LEVELS)),
)
"""``[topology]``: how boards or chips are joined."""


class ArrayTable(Table):
    """An array spec: how many of which device a node has, how many nodes, how they are joined."""

    description: Text = ""
    execution: Model | None = None
    nodes: Annotated[int, whole(1, 1 << 16)] = 1
    precision: Annotated[str, one_of(PRECISIONS)] | None = None
    optimizer: Annotated[str, one_of(OPTIMIZERS)] | None = None
    stack: Text | None = None
    usual_stack: Text | None = None
    price: Price | None = None
    devices: dict[str, EntryTable] = Field(min_length=1, max_length=MOST_KINDS)
    network: ArrayNetworkTable = ArrayNetworkTable()
    topology: TopologyTable = TopologyTable()


T = TypeVar("T", bound=Table)


def check(
    model: type[T], settings: Settings, file: str, prefix: str = ""
) -> tuple[T | None, list[str]]:
    """Validate settings: the tables (None when wrong) and every fault, ``file: key: what``."""
    table, faults = validated(model, unflatten(settings))
    return table, [
        f"{origin_of(path, settings, file)}: {prefix}{path}: {what}" for path, what in faults
    ]


def origin_of(path: str, settings: Settings, file: str) -> str:
    """Where a value, one of a table's, or the list that it is in was written; else the file.

    What is missing is missed by those beside it: of links a bandwidth alone, by ``--set``.
    """
    beneath = (e for key, e in settings.items() if key == path or key.startswith(f"{path}."))
    around = (e for key, e in settings.items() if path.startswith(f"{key}."))
    table = f"{path.rpartition('.')[0]}."
    beside = (e for key, e in settings.items() if table != "." and key.startswith(table))
    found = next(beneath, None) or next(around, None) or next(beside, None)
    return found.origin if found else file


def device_faults(table: DeviceTable) -> Iterator[Fault]:
    """What does not go together in a device: key and what is wrong."""
    arithmetic, peaks = table.arithmetic, table.chip.peaks
    if table.units is not None:
        yield from units_faults(table.units, arithmetic.element_bytes)
        for key in ("variation", "contention"):
            if getattr(table.roofline, key):
                yield f"roofline.{key}", "a device with [units] has none; leave it out"
    elif table.chip.peak is None:
        yield "chip.peak", 'is missing; write chip.peak = "45 TFLOP/s", or describe [units]'
    if table.power and table.power.idle_w > table.power.busy_w:
        yield "power.idle", f"{table.power.idle_w:g} W: no more than power.busy"
    if not arithmetic.gradient_buffer:
        what = "only with a buffer of gradients; write arithmetic.gradient_buffer = true"
        for key in ("dummy_gradients", "gradient_copy", "gradient_kernel_bytes"):
            if getattr(arithmetic, key):
                yield f"arithmetic.{key.removesuffix('_bytes')}", what
    if table.roofline.align_bytes and "fp32" not in peaks:
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
    weights = arithmetic.weight_bytes or arithmetic.element_bytes
    if 0 < arithmetic.master_bytes < weights:
        yield (
            "arithmetic.master",
            f"{arithmetic.master_bytes:g} B: the optimizer's copy is no narrower than the weights, "
            f"which have {weights:g} B",
        )


def units_faults(table: UnitsTable, element_bytes: float) -> Iterator[Fault]:
    """What does not go together: a unit whose least tile the buffer cannot hold fits no layer."""
    for entry, unit in table.matrix.items():
        least = tile_bytes(unit.width, unit.depth, unit.count, element_bytes)
        if least > table.buffer:
            yield (
                f"units.matrix.{entry}",
                f"{unit.count} x {unit.depth} x {unit.width}: no layer fits: its tiles need a "
                f"buffer of {least:,.0f} B, units.buffer is {table.buffer:,.0f} B; make "
                "units.buffer larger or the unit smaller",
            )


def tile_bytes(width: int, depth: int, count: int, element_bytes: float) -> float:
    """Bytes of the tiles that so many equal units hold at least: each two, one in the making."""
    return 2 * width * depth * count * element_bytes


def device_of(label: str, table: DeviceTable) -> Device:
    """Return the device of a checked table, in SI units, by the name of its spec."""
    network_bytes_per_s, network_latency_s, network_half_bytes = table.network.reached()
    units = units_of(table.units) if table.units else None
    peaks = table.chip.peaks
    numbers = dict(table.arithmetic)
    compute, attention = numbers.pop("compute"), numbers.pop("attention")
    usual = compute or FORMAT_OF_WIDTH.get(table.arithmetic.element_bytes, "")
    peak = peaks.get(usual) or table.chip.peak or 0.0
    return Device(
        name=label,
        chips=table.chips,
        cores_per_chip=table.chip.cores,
        chip_peak_flops_per_s=table.chip.cores * units.flops_per_s if units else peak,
        hbm_capacity_bytes=table.hbm.capacity,
        hbm_bytes_per_s=table.hbm.bandwidth,
        network_bytes_per_s=network_bytes_per_s,
        description=table.description,
        network_latency_s=network_latency_s,
        network_half_bytes=network_half_bytes,
        links=ChipLinks(table.links.per_chip, *table.links.reached()) if table.links else None,
        roofline=Roofline(**dict(table.roofline)),
        arithmetic=Arithmetic(**numbers),
        energy=Energy(**dict(table.energy)) if table.energy else None,
        units=units,
        power=Power(**dict(table.power)) if table.power else None,
        price=table.price,
        chip_attention_flops_per_s=peaks.get(attention or ""),
        chip_vector_flops_per_s=peaks.get("fp32"),
        chip_exponentials_per_s=table.chip.exponentials,
        product_bytes=NARROW.get(compute or ""),
    )


def units_of(table: UnitsTable) -> Units:
    """Return the units that a table describes, in the order of their entries."""
    matrix = (table.matrix[key] for key in sorted(table.matrix, key=in_order))
    vector = (table.vector[key] for key in sorted(table.vector, key=in_order))
    return Units(
        clock_hz=table.clock,
        matrix=tuple(MatrixUnit(**dict(unit)) for unit in matrix),
        vector=tuple(VectorUnit(**dict(unit)) for unit in vector),
        buffer_bytes=table.buffer,
    )


def written_format(values: Mapping[str, str]) -> str:
    """The format in which products of a device with such values compute; "" without a name."""
    width = values.get("arithmetic.element")
    usual = FORMAT_OF_WIDTH.get(2.0 if width is None else parse_quantity(width, "B"), "")
    return values.get("arithmetic.compute", usual)


def topology_of(table: TopologyTable, group: Group, nodes: int, share: float = 1.0) -> Topology:
    """How the group is joined, of so many nodes alike; links give a ``share`` of what is written.

    The innermost of several tiers joins a node's, where it does not say how many.
    """
    levels = [_tier(table.levels[i], share) for i in sorted(table.levels, key=in_order)]
    if len(levels) > 1 and len(group.kinds) == 1 and not levels[0].members:
        device, boards = group.kinds[0]
        chips = device.chips if table.joins == "chips" else 1
        levels[0] = replace(levels[0], members=boards * chips // nodes)
    kind = TIERS if levels else table.kind
    return Topology(**dict(table) | {"kind": kind, "levels": tuple(levels), "share": share})


def in_order(index: str) -> tuple[int, str]:
    """A key to sort the entries of a list by, which are written by number."""
    return (int(index), "") if index.isdecimal() and len(index) < 10 else (1 << 30, index)


NO_LATENCY_S = 1e-18
"""A latency that is written as 0 s, where an unwritten one is the device's: no picosecond."""


def _tier(table: LevelTable, share: float) -> Tier:
    values = {key: value for key, value in table if key not in LinkTable.model_fields}
    values["cables"] = tuple(cable for some in table.cables for cable in some)
    values["protocols"] = tuple(table.protocols)
    if not table.bandwidth:
        none_s = NO_LATENCY_S if "latency" in table.model_fields_set else 0.0
        latency_s = table.latency or none_s
        return Tier(**values, latency_s=latency_s, share=share * table.efficiency)
    bytes_per_s, latency_s, half_bytes = table.reached(share)
    values |= {"bytes_per_s": bytes_per_s, "latency_s": latency_s, "half_bytes": half_bytes}
    return Tier(**values)
