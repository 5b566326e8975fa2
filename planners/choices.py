"""What the entries of cost tables are made of, many at once, and the shares that go with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from planners.objective import Prices

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Choices:
    """Numbers of products and boundaries under one choice of types each, linear but for a swap.

    A half with share a spends ``fixed + a * work + (1 - a) * rest + a * (1 - a) * swap``
    in units of its prices: ``work`` FLOPs, the others elements. All arrays have one
    length, and each number comes out as it would by itself, to the last bit.
    """

    work: Floats
    fixed: Floats
    rest: Floats
    swap: Floats

    def spend(self, prices: Prices, share: Floats | float) -> Floats:
        """What one half spends when it takes ``share``."""
        other = 1.0 - share
        elements = self.fixed + other * self.rest + share * other * self.swap
        return share * self.work * prices.per_flop + elements * prices.per_element

    def cost(self, prices: tuple[Prices, Prices], share: Floats | float) -> Floats:
        """What the slower half spends when the first takes ``share``."""
        return np.maximum(self.spend(prices[0], share), self.spend(prices[1], 1.0 - share))

    def balanced(self, prices: tuple[Prices, Prices]) -> Floats:
        """The first half's share for which both finish together, else the better end.

        Where the quadratic has two roots within 0...1 the cheaper one is taken.
        """
        one, other = self._roots(prices)
        has_one, has_other = (one >= 0.0) & (one <= 1.0), (other >= 0.0) & (other <= 1.0)
        neither = ~(has_one | has_other)
        one, other = np.where(neither, 0.0, one), np.where(neither, 1.0, other)
        with np.errstate(all="ignore"):
            costs = self.cost(prices, one), self.cost(prices, other)
        cheaper = (costs[1] < costs[0]) | ((costs[1] == costs[0]) & (other < one))
        take_other = np.where(has_one == has_other, cheaper, has_other)
        return np.where(take_other, other, one)

    def _roots(self, prices: tuple[Prices, Prices]) -> tuple[Floats, Floats]:
        """Where first(a) - second(1 - a) = c + b*a - swap*a*a vanishes; NaN or infinite: nowhere.

        The textbook's formula loses digits where b*b is large beside the rest,
        one root being the difference of two near numbers: it is taken from the
        product of both roots, -c/swap, instead.
        """
        first, second = prices
        swap = self.swap * (first.per_element - second.per_element)
        c = (
            self.fixed * (first.per_element - second.per_element)
            + self.rest * first.per_element
            - self.work * second.per_flop
        )
        b = (
            self.work * (first.per_flop + second.per_flop)
            - self.rest * (first.per_element + second.per_element)
            + swap
        )
        straight = swap == 0.0
        with np.errstate(all="ignore"):
            q = 0.5 * (b + np.copysign(np.sqrt(b * b + 4 * swap * c), b))
            return np.where(straight, -c / b, q / swap), np.where(straight, np.nan, -c / q)
