"""What a spec may contain. Every fault is reported at once, with file and key path."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from hardware.device import Roofline
from hardware.interconnect.topologies import DESIGNS
from hardware.quantity import parse_quantity
from hardware.spec import Settings, unflatten
from hardware.tables import (
    ByteRate,
    Bytes,
    Duration,
    Efficiency,
    EnergyEach,
    EnergyPerByte,
    FlopRate,
    Table,
    Text,
)
from hardware.units.table import UnitsTable, units_faults

MOST_KINDS = 16
MOST_MOMENTS = 8
MOST_LEVELS = 8
WIDEST_NUMBER = 16
_DEFAULT = Roofline()


def _width(text: object) -> float:
    """Bytes of one number of a format."""
    size = parse_quantity(text, "B")
    if size > WIDEST_NUMBER:
        raise ValueError(f'a number has at most {WIDEST_NUMBER} B; write it like "2 B"')
    return size


NumberBytes = Annotated[float, BeforeValidator(_width)]


def _known_topology(name: str) -> str:
    if name in DESIGNS:
        return name
    near = difflib.get_close_matches(name, DESIGNS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"one of {', '.join(map(repr, DESIGNS))}"
    raise ValueError(f"no such topology; {hint}")


class PeakTable(Table):
    """``[chip.peak_by_format]``: one chip's peak in formats for which ``chip.peak`` is not."""

    fp64: FlopRate | None = None
    fp32: FlopRate | None = None
    tf32: FlopRate | None = None
    bf16: FlopRate | None = None
    fp16: FlopRate | None = None
    fp8: FlopRate | None = None
    int8: FlopRate | None = None


class ChipTable(Table):
    """``[chip]``: one chip's cores and their peak together, which ``[units]`` may say instead."""

    cores: int = Field(ge=1, le=4096)
    peak: FlopRate | None = None
    peak_by_format: PeakTable = PeakTable()


class HbmTable(Table):
    """``[hbm]``: one chip's memory."""

    capacity: Bytes
    bandwidth: ByteRate


class NetworkTable(Table):
    """``[network]`` of a device: the board's port, each direction; latency per message or hop."""

    bandwidth: ByteRate
    latency: Duration = 0.0
    efficiency: Efficiency = 1.0
    half_size: Bytes = 0.0


class LinksTable(Table):
    """``[links]``: a chip's links to neighbouring chips, each link and direction."""

    per_chip: int = Field(ge=1, le=4096)
    bandwidth: ByteRate
    latency: Duration = 0.0
    efficiency: Efficiency = 1.0
    half_size: Bytes = 0.0


class RooflineTable(Table):
    """``[roofline]`` of a device: how near a core comes to its peaks."""

    matrix_efficiency: Efficiency = _DEFAULT.matrix_efficiency
    memory_efficiency: Efficiency = _DEFAULT.memory_efficiency
    overhead: Duration = _DEFAULT.overhead_s
    tile: bool = _DEFAULT.tile
    pad_matrix_unit: int = Field(default=_DEFAULT.pad_matrix_unit, ge=0, le=1 << 16)


class ArithmeticTable(Table):
    """``[arithmetic]``: bytes of each kind of number, what products compute in, how FLOPs count.

    What is None follows ``element`` (``hardware.Arithmetic.of``).
    """

    element: NumberBytes = 2.0
    fused: bool = False
    compute: Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8"] | None = None
    activations: NumberBytes | None = None
    weights: NumberBytes | None = None
    gradients: NumberBytes | None = None
    master: NumberBytes | None = None
    moments: list[NumberBytes] | None = Field(default=None, max_length=MOST_MOMENTS)


class EnergyTable(Table):
    """``[energy]``: of a multiply-add, of a byte of HBM, of a byte that a board receives."""

    mac: EnergyEach
    hbm: EnergyPerByte | None = None
    transfer: EnergyPerByte


class DeviceTable(Table):
    """A device spec: one board."""

    description: Text = ""
    chips: int = Field(ge=1, le=4096)
    chip: ChipTable
    hbm: HbmTable
    network: NetworkTable
    links: LinksTable | None = None
    roofline: RooflineTable = RooflineTable()
    arithmetic: ArithmeticTable = ArithmeticTable()
    energy: EnergyTable | None = None
    units: UnitsTable | None = None


class EntryTable(Table):
    """One ``[[devices]]`` entry; its other keys change the device (see ``hardware.load``)."""

    device: Text
    count: int = Field(ge=1, le=1 << 16)


class ArrayNetworkTable(Table):
    """``[network]`` of an array: given here, it holds for every board."""

    bandwidth: ByteRate | None = None
    latency: Duration | None = None
    efficiency: Efficiency | None = None
    half_size: Bytes | None = None


class LevelTable(Table):
    """One ``[[topology.levels]]``, innermost first (see ``hardware.topology.Tier``).

    A message of ``half_size`` gets half of the bandwidth that large ones get,
    which is ``efficiency`` of what is written.
    """

    kind: Literal["switch", "ring", "torus", "mesh", "fully_connected"]
    members: int = Field(default=0, ge=2, le=1 << 17)
    bandwidth: ByteRate
    latency: Duration = 0.0
    rails: int = Field(default=1, ge=1, le=4096)
    oversubscription: float = Field(default=1.0, ge=1.0, le=1000.0)
    shape: list[Annotated[int, Field(ge=1, le=1 << 17)]] = Field(
        default=[], min_length=1, max_length=3
    )
    efficiency: Efficiency = 1.0
    half_size: Bytes = 0.0


class TopologyTable(Table):
    """``[topology]``: how boards or chips are joined (see ``hardware.topology``)."""

    kind: Annotated[str, AfterValidator(_known_topology)] = "tree"
    joins: Literal["boards", "chips"] = "boards"
    shape: list[Annotated[int, Field(ge=1, le=1 << 17)]] = Field(
        default=[], min_length=1, max_length=3
    )
    factor: float = Field(default=2.0, ge=0.01, le=100.0)
    two_way: bool = True
    bandwidth: ByteRate | None = None
    latency: Duration | None = None
    levels: dict[str, LevelTable] = Field(default={}, max_length=MOST_LEVELS)


class ArrayTable(Table):
    """An array spec: how many of which device, and how they are joined."""

    description: Text = ""
    execution: Literal["published", "deployed"] | None = None
    devices: dict[str, EntryTable] = Field(min_length=1, max_length=MOST_KINDS)
    network: ArrayNetworkTable = ArrayNetworkTable()
    topology: TopologyTable = TopologyTable()


def device_faults(table: DeviceTable) -> Iterator[tuple[str, str]]:
    """What does not go together in a device: key and what is wrong."""
    arithmetic, peaks = table.arithmetic, peaks_of(table)
    if table.units is not None:
        yield from units_faults(table.units, arithmetic.element)
    elif table.chip.peak is None:
        yield "chip.peak", 'is missing; write chip.peak = "45 TFLOP/s", or describe [units]'
    if arithmetic.compute is not None and arithmetic.compute not in peaks:
        known = f"has {', '.join(peaks)}" if peaks else "is not given"
        yield (
            "arithmetic.compute",
            f"{arithmetic.compute!r}: chip.peak_by_format has no peak of it ({known}); "
            f'write chip.peak_by_format.{arithmetic.compute} = "180 TFLOP/s"',
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
        return model.model_validate(unflatten(settings)), []
    except ValidationError as error:
        return None, [_fault(model, settings, file, prefix, item) for item in error.errors()]


def _fault(model: type[Table], settings: Settings, file: str, prefix: str, error: Any) -> str:
    path = ".".join(str(part) for part in error["loc"])
    related = [e for key, e in settings.items() if key == path or key.startswith(f"{path}.")]
    origin = related[0].origin if related else file
    return f"{origin}: {prefix}{path}: {_what(model, error)}"


def _what(model: type[Table], error: Any) -> str:
    value = repr(error["input"])[:60]
    match error["type"]:
        case "missing":
            return "is missing"
        case "extra_forbidden":
            keys = _keys_beside(model, error["loc"])
            near = difflib.get_close_matches(str(error["loc"][-1]), keys, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(keys)}"
            return f"unknown key; {hint}"
        case "value_error":
            return f"{value}: {error['ctx']['error']}"
        case "model_type" | "dict_type":
            return f"{value}: must be a table"
        case _:
            return f"{value}: {error['msg'][0].lower()}{error['msg'][1:]}"


def _keys_beside(model: type[Table], loc: tuple[Any, ...]) -> list[str]:
    """Known keys at the place where an unknown one was found."""
    table: Any = model
    for part in loc[:-1]:
        if issubclass(table, Table) and part in table.model_fields:
            table = table.model_fields[part].annotation
        if kinds := [a for a in getattr(table, "__args__", ()) if a is not type(None)]:
            table = kinds[-1]
    return list(table.model_fields) if hasattr(table, "model_fields") else []
