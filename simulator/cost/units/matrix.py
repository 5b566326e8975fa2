"""Cycles that equal systolic arrays take for a product: tiles, padding, dataflow.

An array has d rows and w columns. The conventions are SCALE-Sim's (Samajdar et al.,
ISPASS 2020), with double buffers at both ends, so that loading a tile and draining the one
before it go on while a third is computed:

    output stationary   a tile of d x w outputs stays; its k terms stream past
                        tiles = ceil(m / d) ceil(n / w), max(k, d) cycles apart
    weight stationary   d x w of one operand stay; the rows of the other stream past
                        tiles = ceil(k / d) ceil(n / w), max(m, d) cycles apart

The last one takes k, or m, and filling and draining the array d + w - 2 cycles more. Of
the two operands the one is held with which fewer cycles are taken. Tiles are dealt
out to ``count`` equal arrays; where there are more arrays than tiles, several share what
streams past one held tile. An example: 1024 x 64 by 64 x 1024 on one array of 128 x 128,
weight stationary: 1 x 8 tiles of 1024 cycles and 254 cycles more, 8446, half of whose
multipliers have nothing to do as k is 64.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardware import MatrixUnit
from simulator.cost.units.product import Product

Ints = NDArray[np.int64]
Sides = tuple[int, ...] | Ints
"""m, k, n and times of a product; or arrays of them, of many."""


def parts(length: Ints, side: int) -> Ints:
    """How many tiles of a side each length needs."""
    return -(-length // side)


def cycles(unit: MatrixUnit, product: Product) -> int:
    """Cycles of all repetitions of a product on all arrays of a unit."""
    return int(cycles_of_all(unit, product[1:]))


def cycles_of_all(unit: MatrixUnit, sides: Sides) -> Ints:
    """The same of each product, of which ``sides`` has m, k, n and times as rows; 0 for none."""
    m, k, n, times = np.asarray(sides, dtype=np.int64)
    if unit.dataflow == "output_stationary":
        each = _streamed(unit, parts(m, unit.depth) * parts(n, unit.width) * times, k)
    else:
        each = np.minimum(_held(unit, m, k, n, times), _held(unit, n, k, m, times))
    return np.where(m > 0, each + unit.depth + unit.width - 2, 0)


def _held(unit: MatrixUnit, rows: Ints, k: Ints, columns: Ints, times: Ints) -> Ints:
    """Cycles with the operand of k x columns held, while rows stream past."""
    tiles = parts(k, unit.depth) * parts(columns, unit.width) * times
    sharing = np.maximum(1, unit.count // np.maximum(tiles, 1))
    return _streamed(unit, tiles, -(-rows // sharing))


def _streamed(unit: MatrixUnit, tiles: Ints, length: Ints) -> Ints:
    """Cycles in which so much streams past each of an array's tiles, one after the other."""
    each: Ints = (parts(tiles, unit.count) - 1) * np.maximum(length, unit.depth) + length
    return each


def ideal_cycles(unit: MatrixUnit, product: Product) -> float:
    """Cycles with every multiplier busy in every cycle: those of shards that are fractions."""
    m, k, n, times = product[1:]
    return m * k * n * times / unit.macs_per_cycle
