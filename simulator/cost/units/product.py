"""A matrix product, as units are given it."""

from __future__ import annotations

from typing import NamedTuple


class Product(NamedTuple):
    """``times`` independent products of ``m`` x ``k`` by ``k`` x ``n`` matrices."""

    name: str
    m: int
    k: int
    n: int
    times: int = 1

    @property
    def operations(self) -> int:
        """Multiplications and additions of all of them."""
        return 2 * self.m * self.k * self.n * self.times
