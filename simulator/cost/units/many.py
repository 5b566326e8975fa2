"""Cycles and misses of many products at once: ``matrix.cycles`` and ``pricing.missed_bytes``.

The same formulas on arrays, for searches that ask about thousands of units; the tests hold
both to one another, number by number.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hardware import MatrixUnit
from simulator.cost.units.pricing import block_side

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


def cycles_of_all(unit: MatrixUnit, sides: Ints) -> Ints:
    """Cycles of each product, of which ``sides`` has m, k, n and times as rows; 0 for none."""
    m, k, n, times = sides
    if unit.dataflow == "output_stationary":
        each = _streamed(unit, _parts(m, unit.depth) * _parts(n, unit.width) * times, k)
    else:
        each = np.minimum(_held(unit, m, k, n, times), _held(unit, n, k, m, times))
    return np.where(m > 0, each + unit.depth + unit.width - 2, 0)


def _held(unit: MatrixUnit, rows: Ints, k: Ints, columns: Ints, times: Ints) -> Ints:
    tiles = _parts(k, unit.depth) * _parts(columns, unit.width) * times
    sharing = np.maximum(1, unit.count // np.maximum(tiles, 1))
    return _streamed(unit, tiles, -(-rows // sharing))


def _streamed(unit: MatrixUnit, tiles: Ints, length: Ints) -> Ints:
    each: Ints = (_parts(tiles, unit.count) - 1) * np.maximum(length, unit.depth) + length
    return each


def _parts(length: Ints, side: int) -> Ints:
    return -(-length // side)


def missed_by_all(sides: Ints, kernel: Floats, buffer_bytes: float, element_bytes: float) -> Floats:
    """Bytes that each product's operands cross HBM beyond once; 0 for none."""
    m, k, n, times = sides
    first, second = m * k * element_bytes / kernel, k * n * element_bytes
    side = block_side(buffer_bytes)
    again = first * (_parts(n, side) - 1) + second * (_parts(m, side) - 1)
    return np.where(np.minimum(first, second) <= buffer_bytes / 2, 0.0, times * again)
