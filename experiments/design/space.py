"""Spaces of designs: which counts, sides and buffers a core's units may have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from itertools import product
from math import prod
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from hardware import MatrixUnit, SpecError, Units, VectorUnit, format_quantity
from hardware.reader import (
    Bytes,
    Frequency,
    Table,
    Text,
    checked,
    hint,
    parse_toml,
    read_text,
    whole,
)
from hardware.schema import tile_bytes
from hardware.units import Dataflow

MOST_VALUES = 24
ELEMENT_BYTES = 2.0
WIDEST = 1 << 16


@dataclass(frozen=True, slots=True, order=True)
class Design:
    """A core's units: equal matrix units, equal vector units, and a buffer."""

    matrix_count: int
    matrix_width: int
    matrix_depth: int
    vector_count: int
    vector_width: int
    buffer_bytes: float

    def __str__(self) -> str:
        buffer = format_quantity(self.buffer_bytes / 2**20, "", 6).strip()
        return (
            f"{self.matrix_count} x {self.matrix_depth}x{self.matrix_width}, "
            f"{self.vector_count} x {self.vector_width}, {buffer} MiB"
        )


FIELDS = tuple(field.name for field in fields(Design))


def _power(side: int) -> int:
    """The tree of a search halves counts and sides, so they are powers of two."""
    if side & (side - 1):
        raise ValueError(f"must be a power of two from 1 to {WIDEST}, as searches halve it")
    return side


def _ascending(values: list[float]) -> list[float]:
    if len({*values}) < len(values):
        raise ValueError("a value is there twice")
    return sorted(values)


_Side = Annotated[int, whole(1, WIDEST), AfterValidator(_power)]
_Sides = Annotated[
    list[_Side], Field(min_length=1, max_length=MOST_VALUES), AfterValidator(_ascending)
]
_Sizes = Annotated[
    list[Bytes], Field(min_length=1, max_length=MOST_VALUES), AfterValidator(_ascending)
]


class _Vector(Table):
    count: _Sides
    width: _Sides


class _Matrix(_Vector):
    depth: _Sides


class _Buffer(Table):
    size: _Sizes


class _SpaceTable(Table):
    kind: Literal["space"]
    description: Text = ""
    sources: dict[str, str] = Field({})
    clock: Frequency
    dataflow: Dataflow = "weight_stationary"
    matrix: _Matrix
    vector: _Vector
    buffer: _Buffer


@dataclass(frozen=True, slots=True)
class Space:
    """Ascending values for each field of a design, at one clock and with one dataflow."""

    name: str
    clock_hz: float
    dataflow: Dataflow
    values: dict[str, tuple[float, ...]]

    def __len__(self) -> int:
        return prod(len(values) for values in self.values.values())

    def __iter__(self) -> Iterator[Design]:
        """Every design whose tiles fit its buffer, in the order of its fields."""
        return (one for one in map(design_of, product(*self.values.values())) if self.fits(one))

    def at(self, place: int) -> Design:
        """The design of that number, whether its tiles fit or not."""
        chosen: list[float] = []
        for values in reversed(self.values.values()):
            place, here = divmod(place, len(values))
            chosen.append(values[here])
        return design_of(chosen[::-1])

    def units(self, design: Design) -> Units:
        """A design's units, as a device's spec describes them."""
        sides = design.matrix_width, design.matrix_depth, design.matrix_count
        matrix = MatrixUnit(*sides, self.dataflow)
        vector = VectorUnit(design.vector_width, design.vector_count)
        return Units(self.clock_hz, (matrix,), (vector,), design.buffer_bytes)

    def fits(self, design: Design) -> bool:
        """Whether the buffer holds the tiles of all matrix units."""
        sides = design.matrix_width, design.matrix_depth, design.matrix_count
        return tile_bytes(*sides, ELEMENT_BYTES) <= design.buffer_bytes

    def moved(self, design: Design, field: str, steps: int) -> Design | None:
        """The design with a field's next larger or smaller value; None at the end of the space."""
        values = self.values[field]
        place = values.index(getattr(design, field)) + steps
        if not 0 <= place < len(values):
            return None
        changed = [values[place] if name == field else getattr(design, name) for name in FIELDS]
        return design_of(changed)


def design_of(values: Sequence[float]) -> Design:
    """The design with these values of its fields."""
    count, width, depth, vectors, lanes = map(int, values[:-1])
    return Design(count, width, depth, vectors, lanes, values[-1])


@cache
def spaces() -> dict[str, str]:
    """Name to text of the spaces that come with accelarray."""
    folder = resources.files("experiments") / "design" / "spaces"
    files = sorted(folder.iterdir(), key=lambda file: file.name)
    return {f.name.removesuffix(".toml"): f.read_text() for f in files if f.name.endswith(".toml")}


def load_space(name: str) -> Space:
    """A space by name or path; raises SpecError."""
    known = spaces()
    if name not in known and not name.endswith(".toml") and "/" not in name:
        raise SpecError(
            f"unknown space {name!r}; {hint(name, known)} (or the path of a .toml file)"
        )
    text = known[name] if name in known else read_text(name, SpecError)
    table = checked(_SpaceTable, parse_toml(text, name, SpecError), name, SpecError)
    sides, lanes = table.matrix, table.vector
    some = sides.count, sides.width, sides.depth, lanes.count, lanes.width
    lists: list[Sequence[float]] = [*some, table.buffer.size]
    values = {field: tuple(found) for field, found in zip(FIELDS, lists, strict=True)}
    space = Space(Path(name).stem, table.clock, table.dataflow, values)
    if next(iter(space), None) is None:
        raise SpecError(
            f"{name}: no design: not even the smallest matrix unit's tiles fit the largest "
            "buffer.size; make it larger"
        )
    return space
