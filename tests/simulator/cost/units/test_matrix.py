"""Systolic arrays, multiplier by multiplier and cycle by cycle, against the formulas."""

from collections import Counter
from itertools import count, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import MatrixUnit
from simulator.cost.units.matrix import cycles, ideal_cycles
from simulator.cost.units.product import Product

SMALL = st.integers(1, 7)


def clashes(spacing: int, depth: int, width: int, streamed: int, tiles: int) -> bool:
    """Whether tiles so far apart need a multiplier, or a column's port, twice in a cycle.

    Multiplier (i, j) works on what streams past at its start + i + j; each column's
    port passes the ``depth`` values of a tile, that stay or are drained, one a cycle.
    """
    used = Counter[tuple[object, ...]]()
    for tile in range(tiles):
        start = tile * spacing
        for i, j, s in product(range(depth), range(width), range(streamed)):
            used["multiplier", i, j, start + i + j + s] += 1
        for i, j in product(range(depth), range(width)):
            used["port", j, start + j + i] += 1
    return max(used.values()) > 1


def walked(depth: int, width: int, streamed: int, tiles: int) -> int:
    """Cycles until the last multiplier is done, tiles as close as they can be."""
    spacing = next(s for s in count(1) if not clashes(s, depth, width, streamed, min(tiles, 3)))
    return (tiles - 1) * spacing + (depth - 1) + (width - 1) + (streamed - 1) + 1


def tiled(length: int, side: int) -> int:
    return len(range(0, length, side))


@given(SMALL, SMALL, SMALL, SMALL, SMALL, st.integers(1, 3))
def test_output_stationary(depth: int, width: int, m: int, k: int, n: int, times: int) -> None:
    tiles = tiled(m, depth) * tiled(n, width) * times
    unit = MatrixUnit(width, depth, dataflow="output_stationary")
    expected = walked(depth, width, k, tiles)
    assert cycles(unit, Product("p", m, k, n, times)) == expected


@given(SMALL, SMALL, SMALL, SMALL, SMALL, st.integers(1, 3))
def test_weight_stationary_holds_the_better_operand(
    depth: int, width: int, m: int, k: int, n: int, times: int
) -> None:
    unit = MatrixUnit(width, depth)
    ways = [
        walked(depth, width, streamed, tiled(k, depth) * tiled(held, width) * times)
        for streamed, held in ((m, n), (n, m))
    ]
    assert cycles(unit, Product("p", m, k, n, times)) == min(ways)


@given(SMALL, SMALL, SMALL, SMALL, SMALL, st.integers(1, 5))
def test_no_fewer_than_every_multiplier_busy_and_more_arrays_are_no_slower(
    depth: int, width: int, m: int, k: int, n: int, arrays: int
) -> None:
    for flow in ("weight_stationary", "output_stationary"):
        one = MatrixUnit(width, depth, 1, flow)
        many = MatrixUnit(width, depth, arrays, flow)
        asked = Product("p", m, k, n, 3)
        assert cycles(many, asked) <= cycles(one, asked)
        for unit in (one, many):
            assert cycles(unit, asked) >= ideal_cycles(unit, asked)
    assert ideal_cycles(one, asked) == 3 * m * k * n / (depth * width)


def test_the_docstrings_example() -> None:
    unit = MatrixUnit(128, 128)
    assert cycles(unit, Product("p", 1024, 64, 1024)) == 8 * 1024 + 254


@pytest.mark.parametrize(("arrays", "expected"), [(1, 8), (2, 4), (4, 2), (8, 1), (16, 1)])
def test_whole_tiles_are_dealt_out(arrays: int, expected: int) -> None:
    """Eight tiles of 512 rows; sixteen arrays share them, 256 rows each."""
    unit = MatrixUnit(64, 64, arrays)
    rows = 512 if arrays < 16 else 256
    assert cycles(unit, Product("p", 512, 64, 512)) == expected * rows + 126
