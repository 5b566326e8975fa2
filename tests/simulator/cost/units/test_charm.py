"""CHARM's formulas: the given figures, tile by tile, and every assignment."""

from itertools import pairwise
from itertools import product as every

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.cost.units.charm import (
    CLOCK_HZ,
    REACHED,
    STORE_ALONE,
    THREE_STREAMS,
    TWO_STREAMS,
    CharmUnit,
    UnitError,
    assign,
)
from simulator.cost.units.product import Product

UNITS = st.builds(
    CharmUnit,
    st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5)),
    st.tuples(st.integers(1, 8), st.integers(1, 4), st.integers(1, 4)),
)
SIDES = st.integers(1, 1500)


def walked(unit: CharmUnit, m: int, k: int, n: int, share: float) -> float:
    """Tile by tile: while one is computed the next is loaded and a finished output stored."""
    sides = [32 * e * r for e, r in zip(unit.engines, unit.reuse, strict=True)]
    x, y, z = (
        sum(1 for _ in range(0, length, side))
        for length, side in zip((m, k, n), sides, strict=True)
    )
    left, right, out = (4 * sides[a] * sides[b] for a, b in ((0, 1), (1, 2), (0, 2)))
    blocks = unit.reuse[0] * unit.reuse[1] * unit.reuse[2]
    compute = 4392 * blocks + 8192

    def seconds(nbytes: int, rate: float) -> float:
        return nbytes / (rate * REACHED * share)

    tiles = [(i, j, h) for i in range(x) for h in range(z) for j in range(y)]
    total = 0.0
    for turn in range(len(tiles) + 2):
        loads, computes = turn < len(tiles), 1 <= turn <= len(tiles)
        stores = turn >= 2 and tiles[turn - 2][1] == y - 1
        busy = [float(compute)] if computes else []
        if loads and stores:
            busy += [seconds(b, THREE_STREAMS) for b in (left, right, out)]
        elif loads:
            busy += [seconds(b, TWO_STREAMS) for b in (left, right)]
        elif stores:
            busy += [seconds(out, STORE_ALONE)]
        total += max(busy)
    return total


@settings(max_examples=25)
@given(UNITS, SIDES, SIDES, SIDES, st.sampled_from([1.0, 0.75, 0.5]))
def test_a_product_takes_as_long_as_its_tiles_one_by_one(
    unit: CharmUnit, m: int, k: int, n: int, share: float
) -> None:
    cycles = unit.cycles(Product("p", m, k, n), share)
    assert cycles == pytest.approx(walked(unit, m, k, n, share))
    assert unit.cycles(Product("p", m, k, n, 7), share) == pytest.approx(7 * cycles)


@given(UNITS, SIDES, SIDES, SIDES)
def test_bytes_are_those_of_every_tile(unit: CharmUnit, m: int, k: int, n: int) -> None:
    a, b, c = unit.tile
    moved = 0
    for _ in range(0, m, a):
        for _ in range(0, n, c):
            moved += sum(4 * (a * b + b * c) for _ in range(0, k, b)) + 4 * a * c
    assert unit.moved_bytes(Product("p", m, k, n)) == moved


@given(st.lists(st.tuples(SIDES, SIDES, SIDES), min_size=1, max_size=6), st.data())
def test_no_cut_of_the_sorted_products_is_better(
    sides: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    """All 2^n assignments are looked at; those that cut the sorted list are the candidates."""
    products = [Product(str(i), *side) for i, side in enumerate(sides)]
    units = data.draw(st.lists(UNITS, min_size=2, max_size=2))
    found = assign(products, units)
    ranked = sorted(range(len(products)), key=lambda i: products[i].operations)
    best = float("inf")
    for unit_of in every((0, 1), repeat=len(products)):
        along = [unit_of[i] for i in ranked]
        if sum(one != other for one, other in pairwise(along)) > 1:
            continue
        busy = [0.0, 0.0]
        for i, unit in enumerate(unit_of):
            busy[unit] += units[unit].cycles(products[i], 0.5) / CLOCK_HZ
        best = min(best, max(busy))
    assert found.slowest_s == pytest.approx(best)
    assert sum(found.busy_s) == pytest.approx(sum(found.seconds))


@pytest.mark.parametrize(("engines", "reuse"), [((0, 1, 1), (1, 1, 1)), ((1, 1, 1), (1, -1, 1))])
def test_a_unit_that_cannot_be(engines: tuple[int, int, int], reuse: tuple[int, int, int]) -> None:
    with pytest.raises(UnitError, match="at least 1"):
        CharmUnit(engines, reuse)


def test_mistakes_are_said() -> None:
    product, unit = Product("p", 64, 64, 64), CharmUnit((6, 4, 16), (8, 1, 2))
    with pytest.raises(UnitError, match="768 engines in 2 units; the chip has 400"):
        assign([product], [unit, unit])
    with pytest.raises(UnitError, match="at least one product"):
        assign([], [unit])
    with pytest.raises(UnitError, match="above 0"):
        assign([product], [unit], 0.0)
    many = [CharmUnit((1, 1, 1), (1, 1, 1))] * 9
    with pytest.raises(UnitError, match="too many ways"):
        assign([product] * 40, many)
