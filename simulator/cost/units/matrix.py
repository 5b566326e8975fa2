"""Cycles that equal systolic arrays take for a product: tiles, padding, dataflow.

An array has d rows and w columns. The conventions are SCALE-Sim's (Samajdar et al.,
ISPASS 2020), with double buffers at both ends, so that loading a tile and draining the one
before it go on while a third is computed:

    output stationary   a tile of d x w outputs stays; its k terms stream past
                        tiles = ceil(m / d) ceil(n / w), each max(k, d) cycles
    weight stationary   d x w of one operand stay; the rows of the other stream past
                        tiles = ceil(k / d) ceil(n / w), each max(m, d) cycles

The first of them fills the array and the last one drains it: d + w - 2 cycles more. Of
the two operands the one is held with which fewer cycles are taken. Tiles are dealt
out to ``count`` equal arrays; where there are more arrays than tiles, several share what
streams past one held tile. An example: 1024 x 64 by 64 x 1024 on one array of 128 x 128,
weight stationary: 1 x 8 tiles of 1024 cycles and 254 cycles more, 8446, half of whose
multipliers have nothing to do as k is 64.
"""

from __future__ import annotations

from math import ceil

from hardware import MatrixUnit
from simulator.cost.units.product import Product

ROUNDING = 1e-9
"""Less than this above a whole number is a float's error."""


def parts(length: float, side: int) -> int:
    """How many tiles of a side a length needs."""
    return max(1, ceil(length / side - ROUNDING))


def cycles(unit: MatrixUnit, product: Product) -> int:
    """Cycles of all repetitions of a product on all arrays of a unit."""
    m, k, n, times = product[1:]
    if unit.dataflow == "output_stationary":
        tiles = parts(m, unit.depth) * parts(n, unit.width) * times
        each = parts(tiles, unit.count) * max(ceil(k - ROUNDING), unit.depth)
    else:
        each = min(_held(unit, m, k, n, times), _held(unit, n, k, m, times))
    return each + unit.depth + unit.width - 2


def _held(unit: MatrixUnit, rows: float, k: float, columns: float, times: float) -> int:
    """Cycles with the operand of k x columns held, while rows stream past."""
    tiles = parts(k, unit.depth) * parts(columns, unit.width) * ceil(times - ROUNDING)
    sharing = max(1, unit.count // tiles)
    return parts(tiles, unit.count) * max(parts(rows, sharing), unit.depth)


def ideal_cycles(unit: MatrixUnit, product: Product) -> float:
    """Cycles with every multiplier busy in every cycle: those of shards that are fractions."""
    m, k, n, times = product[1:]
    return m * k * n * times / unit.macs_per_cycle
