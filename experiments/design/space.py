"""Spaces of designs: which counts, sides and buffers a core's units may have."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache
from importlib import resources
from itertools import product
from math import prod
from pathlib import Path

from hardware import MatrixUnit, SpecError, Units, VectorUnit, format_quantity
from hardware.schema import check
from hardware.spec import flatten
from hardware.tables import BYTES, FREQUENCY, Table, key, list_of, one_of, text
from hardware.units import Dataflow
from hardware.units.description import DATAFLOWS
from hardware.units.table import tile_bytes

MOST_VALUES = 24
_LARGEST_FILE = 1 << 20
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

    def units(self, clock_hz: float, dataflow: Dataflow) -> Units:
        """As a device's spec describes them."""
        return Units(
            clock_hz,
            (MatrixUnit(self.matrix_width, self.matrix_depth, self.matrix_count, dataflow),),
            (VectorUnit(self.vector_width, self.vector_count),),
            self.buffer_bytes,
        )


FIELDS = tuple(field.name for field in fields(Design))


def _power(written: object) -> int:
    """The tree of a search halves counts and sides, so they are powers of two."""
    if type(written) is int and 1 <= written <= WIDEST and not written & (written - 1):
        return written
    raise ValueError(f"must be a power of two from 1 to {WIDEST}, as searches halve it")


_COUNTS = list_of(_power, 1, MOST_VALUES)


class _Matrix(Table):
    count = key(_COUNTS)
    width = key(_COUNTS)
    depth = key(_COUNTS)


class _Vector(Table):
    count = key(_COUNTS)
    width = key(_COUNTS)


class _Buffer(Table):
    size = key(list_of(BYTES, 1, MOST_VALUES))


class _SpaceTable(Table):
    description = key(text, "")
    clock = key(FREQUENCY)
    dataflow = key(one_of(DATAFLOWS), DATAFLOWS[0])
    matrix = key(_Matrix)
    vector = key(_Vector)
    buffer = key(_Buffer)


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
        return (one for one in map(_design, product(*self.values.values())) if self.fits(one))

    def at(self, place: int) -> Design:
        """The design of that number, whether its tiles fit or not."""
        chosen: list[float] = []
        for values in reversed(self.values.values()):
            place, here = divmod(place, len(values))
            chosen.append(values[here])
        return _design(chosen[::-1])

    def units(self, design: Design) -> Units:
        """A design's units."""
        return design.units(self.clock_hz, self.dataflow)

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
        return _design(changed)


def _design(values: Sequence[float]) -> Design:
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
    text, origin = (known[name], name) if name in known else (_read(name, list(known)), name)
    try:
        data = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SpecError(f"{origin}: not valid TOML: {error}") from None
    if data.pop("kind", None) != "space":
        raise SpecError(f'{origin}: kind: this must be a space of designs, with kind = "space"')
    table, faults = check(_SpaceTable, flatten(data, origin), origin)
    if faults:
        raise SpecError("\n".join(faults))
    lists = {
        "matrix_count": ("matrix.count", table.matrix.count),
        "matrix_width": ("matrix.width", table.matrix.width),
        "matrix_depth": ("matrix.depth", table.matrix.depth),
        "vector_count": ("vector.count", table.vector.count),
        "vector_width": ("vector.width", table.vector.width),
        "buffer_bytes": ("buffer.size", table.buffer.size),
    }
    twice = [
        f"{origin}: {key}: {found}: a value is there twice"
        for key, found in lists.values()
        if len({*found}) < len(found)
    ]
    if twice:
        raise SpecError("\n".join(twice))
    values = {field: tuple(sorted(found)) for field, (_, found) in lists.items()}
    space = Space(Path(origin).stem, table.clock, table.dataflow, values)
    if next(iter(space), None) is None:
        raise SpecError(
            f"{origin}: no design: not even the smallest matrix unit's tiles fit the largest "
            "buffer.size; make it larger"
        )
    return space


def _read(name: str, known: list[str]) -> str:
    if not name.endswith(".toml") and "/" not in name:
        names = ", ".join(known)
        raise SpecError(f"unknown space {name!r}; one of {names} (or the path of a .toml file)")
    try:
        with Path(name).open("rb") as file:
            raw = file.read(_LARGEST_FILE + 1)
        if len(raw) > _LARGEST_FILE:
            raise SpecError(f"{name}: larger than {_LARGEST_FILE >> 20} MiB; not a space")
        return raw.decode("utf-8-sig")
    except OSError as error:
        raise SpecError(f"{name}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SpecError(f"{name}: not a text file (TOML is UTF-8)") from None
