"""CHARM's matrix units on Versal: cycles of a product, and the best assignment to several units.

Zhuang et al., FPGA 2023: a unit of A x B x C engines, each of which takes a
tile of 32 x 32 x 32, keeps X x Y x Z such blocks on the chip, so that its
native tile is 32AX x 32BY x 32CZ and every product is padded to whole ones.
Loads, computing and stores are double-buffered. The constants are those of
the authors' public model (VCK190, float32, 1 GHz).

    M x K x N = 512 x 64 x 512 on (6, 4, 16 | 8, 1, 2), whose tile is
    1536 x 128 x 1024: one tile, of which a twelfth is of use

which is why one large unit does badly on the many small products of attention.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations
from math import ceil, comb, factorial
from typing import NamedTuple

from simulator.cost.units.product import Product

CLOCK_HZ = 1e9
TILE = 32
"""Sides of the product that one engine does at a time."""
TILE_CYCLES = 4392
START_CYCLES = 8192
ELEMENT_BYTES = 4
STORE_ALONE, TWO_STREAMS, THREE_STREAMS = 11.0, 11.0, 8.0
"""Bytes a cycle of one stream to or from DDR, by how many there are at once."""
REACHED = 0.92
"""Part of these that is reached."""
ENGINES = 400
MOST_ASSIGNMENTS = 1_000_000


class UnitError(ValueError):
    """A unit that cannot be, or products that none can take."""


@dataclass(frozen=True, slots=True)
class CharmUnit:
    """A unit of ``engines`` (A, B, C) along M, K and N, with on-chip ``reuse`` (X, Y, Z)."""

    engines: tuple[int, int, int]
    reuse: tuple[int, int, int]

    def __post_init__(self) -> None:
        if min(*self.engines, *self.reuse) < 1:
            raise UnitError(f"{self}: engines and reuse must be at least 1")

    def __str__(self) -> str:
        return f"({','.join(map(str, self.engines))}|{','.join(map(str, self.reuse))})"

    @property
    def tile(self) -> tuple[int, int, int]:
        """Its native tile along M, K and N."""
        m, k, n = (TILE * e * r for e, r in zip(self.engines, self.reuse, strict=True))
        return m, k, n

    @property
    def number(self) -> int:
        """Engines it has."""
        a, b, c = self.engines
        return a * b * c

    def cycles(self, product: Product, ddr_share: float = 1.0) -> float:
        """Cycles of all of a product's repetitions, with that share of the DDR's bandwidth."""
        m, k, n = self.tile
        along_m, along_k, along_n = ceil(product.m / m), ceil(product.k / k), ceil(product.n / n)
        left, right, out = (ELEMENT_BYTES * a * b for a, b in ((m, k), (k, n), (m, n)))
        rate = REACHED * ddr_share
        blocks = self.reuse[0] * self.reuse[1] * self.reuse[2]
        compute = float(TILE_CYCLES * blocks + START_CYCLES)
        load = max(left, right) / (TWO_STREAMS * rate)
        steady = max(max(left, right, out) / (THREE_STREAMS * rate), compute)
        store = out / (STORE_ALONE * rate)
        tiles, outputs = along_m * along_k * along_n, along_m * along_n
        if tiles == 1:
            each = load + compute + store
        elif along_k == 1:  # every tile is an output: load, compute and store overlap at once
            ends = max(load, compute) + max(compute, store)
            each = load + ends + steady * (tiles - 2) + store
        else:  # only the last of along_k tiles of an output is stored
            quiet = max(load, compute) * (tiles - outputs)
            each = load + quiet + steady * (outputs - 1) + compute + store
        return each * product.times

    def moved_bytes(self, product: Product) -> int:
        """Bytes that it loads and stores in all repetitions, padding included."""
        m, k, n = self.tile
        along_m, along_k, along_n = ceil(product.m / m), ceil(product.k / k), ceil(product.n / n)
        loaded = (m * k + k * n) * along_m * along_k * along_n
        return ELEMENT_BYTES * (loaded + m * n * along_m * along_n) * product.times


class Assignment(NamedTuple):
    """Which unit does each product, by number, and the seconds of each product there."""

    units: tuple[CharmUnit, ...]
    unit_of: tuple[int, ...]
    seconds: tuple[float, ...]

    @property
    def busy_s(self) -> tuple[float, ...]:
        """Seconds that each unit works on one batch."""
        pairs = list(zip(self.unit_of, self.seconds, strict=True))
        return tuple(sum(s for u, s in pairs if u == unit) for unit in range(len(self.units)))

    @property
    def slowest_s(self) -> float:
        """Seconds between batches in the long run, with enough of them in flight."""
        return max(self.busy_s)


def assign(
    products: Sequence[Product], units: Sequence[CharmUnit], ddr_share: float = 1.0
) -> Assignment:
    """The best cut of the products, sorted by operations, into one run for each unit.

    All cuts and all orders of the units are tried; each unit has an equal part
    of the DDR's share. A unit may get nothing. Raises UnitError where there are
    no products, no units, more engines than the chip has, or no bandwidth.
    """
    if not products or not units:
        raise UnitError("an assignment needs at least one product and one unit")
    if not 0 < ddr_share <= 1:
        raise UnitError(f"a share of the DDR of {ddr_share:g}; it is above 0 and at most 1")
    if (asked := sum(unit.number for unit in units)) > ENGINES:
        raise UnitError(f"{asked} engines in {len(units)} units; the chip has {ENGINES}")
    cuts = comb(len(products) + len(units) - 1, len(units) - 1)
    if factorial(len(units)) * cuts > MOST_ASSIGNMENTS:
        raise UnitError(f"{len(products)} products, {len(units)} units: too many ways to assign")
    ranked = sorted(range(len(products)), key=lambda i: products[i].operations)
    each = ddr_share / len(units)
    seconds = [[u.cycles(p, each) / CLOCK_HZ for p in products] for u in units]
    chosen = min(
        (
            _dealt(ranked, order, cuts)
            for order in permutations(range(len(units)))
            for cuts in _cuts(len(ranked), len(units))
        ),
        key=lambda unit_of: _slowest(unit_of, seconds),
    )
    return Assignment(tuple(units), chosen, tuple(seconds[u][i] for i, u in enumerate(chosen)))


def _slowest(unit_of: Sequence[int], seconds: Sequence[Sequence[float]]) -> float:
    busy = [0.0] * len(seconds)
    for i, unit in enumerate(unit_of):
        busy[unit] += seconds[unit][i]
    return max(busy)


def _cuts(length: int, parts: int, first: int = 0) -> list[tuple[int, ...]]:
    """Ends of every way to cut a list into so many consecutive parts, some of them empty."""
    if parts == 1:
        return [(length,)]
    ends = range(first, length + 1)
    return [(end, *rest) for end in ends for rest in _cuts(length, parts - 1, end)]


def _dealt(ranked: Sequence[int], order: Sequence[int], cuts: Sequence[int]) -> tuple[int, ...]:
    unit_of = [0] * len(ranked)
    for place, i in enumerate(ranked):
        unit_of[i] = next(u for u, end in zip(order, cuts, strict=True) if place < end)
    return tuple(unit_of)
