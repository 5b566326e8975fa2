"""``[units]`` of a device spec: what it may contain, and what does not go together."""

from __future__ import annotations

from collections.abc import Iterator

from hardware.tables import BYTES, FREQUENCY, Table, entries, key, one_of, whole
from hardware.units.description import DATAFLOWS, MatrixUnit, Units, VectorUnit

MOST_UNITS = 16
WIDEST = 1 << 16
MOST_EQUAL = 1 << 16


class MatrixTable(Table):
    """One ``[[units.matrix]]`` entry: ``count`` equal arrays of ``depth`` rows, ``width`` columns.

    Entries are units that work at once, equal ones share each product.
    """

    count = key(whole(1, MOST_EQUAL), 1)
    width = key(whole(1, WIDEST))
    depth = key(whole(1, WIDEST))
    dataflow = key(one_of(DATAFLOWS), DATAFLOWS[0])


class VectorTable(Table):
    """One ``[[units.vector]]`` entry: ``count`` vector units of ``width`` lanes."""

    count = key(whole(1, MOST_EQUAL), 1)
    width = key(whole(1, WIDEST))


class UnitsTable(Table):
    """``[units]``: those of one core, instead of ``chip.peak``."""

    clock = key(FREQUENCY)
    buffer = key(BYTES)
    matrix = key(entries(MatrixTable, 1, MOST_UNITS))
    vector = key(entries(VectorTable, 1, MOST_UNITS))


def units_of(table: UnitsTable) -> Units:
    """The units that a table describes, in the order of their entries."""
    matrix = (table.matrix[key] for key in sorted(table.matrix, key=_place))
    vector = (table.vector[key] for key in sorted(table.vector, key=_place))
    return Units(
        clock_hz=table.clock,
        matrix=tuple(MatrixUnit(m.width, m.depth, m.count, m.dataflow) for m in matrix),
        vector=tuple(VectorUnit(v.width, v.count) for v in vector),
        buffer_bytes=table.buffer,
    )


def units_faults(table: UnitsTable, element_bytes: float) -> Iterator[tuple[str, str]]:
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


def _place(key: str) -> tuple[int, str]:
    return (int(key), "") if key.isdecimal() else (MOST_UNITS, key)
