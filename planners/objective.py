"""What a split costs: the price of every choice of types, and the share that goes with it.

One formula serves both objectives. A half spends ``share * FLOPs`` at
``per_flop`` and the elements it receives at ``per_element``; a split costs
what its slower half spends. ``time`` fills in seconds (AccPar),
``traffic`` counts elements alone (the authors' released program).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hardware import Half
from planners.partition import Communication, PartitionType, Sizes, boundary, partial_sums
from planners.plan import PlanError


@dataclass(frozen=True, slots=True)
class Prices:
    """Price of one FLOP and of one received element in one of the two halves of a split."""

    per_flop: float
    per_element: float


@dataclass(frozen=True, slots=True)
class Objective:
    """How a split is priced.

    ``seconds`` prices in seconds, else in elements; ``computing`` counts FLOPs
    beside traffic; ``pooled`` charges type II its output after pooling, as does
    the ``plotted`` table of ``communication``.
    """

    name: str
    seconds: bool
    computing: bool
    pooled: bool
    communication: Communication = Communication.PRINTED

    @staticmethod
    def named(name: str, communication: str = Communication.PRINTED) -> Objective:
        """The objective of that name by that table; raises PlanError with the known names."""
        for word, given, known in (
            ("objective", name, list(OBJECTIVES)),
            ("communication", communication, list(Communication)),
        ):
            if given not in known:
                raise PlanError(f"unknown {word} {given!r}; one of {', '.join(known)}")
        return replace(OBJECTIVES[name], communication=Communication(communication))

    @property
    def unit(self) -> str:
        """The unit of its costs."""
        return "seconds" if self.seconds else "elements"

    def prices(self, half: Half) -> Prices:
        """What FLOPs and elements cost one half of a split."""
        element_bytes = half.group.arithmetic.element_bytes
        return Prices(
            1 / half.group.peak_flops_per_s if self.computing else 0.0,
            element_bytes / half.link_bytes_per_s if self.seconds else 1.0,
        )


TIME = Objective("time", seconds=True, computing=True, pooled=False)
TRAFFIC = Objective("traffic", seconds=False, computing=False, pooled=True)
OBJECTIVES = {objective.name: objective for objective in (TIME, TRAFFIC)}


@dataclass(frozen=True, slots=True)
class Choice:
    """One node's numbers under one type and one producer type, linear but for a swap.

    A half with share a spends ``fixed + a * work + (1 - a) * rest + a * (1 - a) * swap``
    in units of its prices: ``work`` FLOPs, the others elements.
    """

    work: float
    fixed: float
    rest: float
    swap: float

    def spend(self, prices: Prices, share: float) -> float:
        """What one half spends when it takes ``share``."""
        other = 1.0 - share
        elements = self.fixed + other * self.rest + share * other * self.swap
        return share * self.work * prices.per_flop + elements * prices.per_element

    def cost(self, prices: tuple[Prices, Prices], share: float) -> float:
        """What the slower half spends when the first takes ``share``."""
        return max(self.spend(prices[0], share), self.spend(prices[1], 1.0 - share))

    def balanced(self, prices: tuple[Prices, Prices]) -> float:
        """The first half's share for which both finish together, else the better end.

        Where the quadratic has two roots within 0...1 the cheaper one is taken.
        """
        roots = [share for share in self._roots(prices) if 0.0 <= share <= 1.0]
        return min(roots or (0.0, 1.0), key=lambda share: (self.cost(prices, share), share))

    def _roots(self, prices: tuple[Prices, Prices]) -> list[float]:
        """Where first(a) - second(1 - a) = c + b*a - swap*a*a vanishes.

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
        if swap == 0.0:
            return [-c / b] if b != 0.0 else []
        discriminant = b * b + 4 * swap * c
        if discriminant < 0.0:
            return []
        q = 0.5 * (b + math.copysign(math.sqrt(discriminant), b))
        return [q / swap] + ([-c / q] if q != 0.0 else [])


def choice(
    size: Sizes,
    own: PartitionType,
    producers: Sequence[PartitionType],
    *,
    pooled: bool,
    table: Communication = Communication.PRINTED,
) -> Choice:
    """The numbers of a product of one type behind producers of others, one for each edge."""
    swap, rest = 0.0, 0.0
    for producer, elements in zip(producers, size.reads, strict=True):
        more_swap, more_rest = edge(producer, own, elements, table)
        swap, rest = swap + more_swap, rest + more_rest
    pooled = pooled or table.pooled
    return Choice(sum(size.flops), partial_sums(own, size, pooled=pooled), rest, swap)


def edge(
    producer: PartitionType,
    consumer: PartitionType,
    elements: float,
    table: Communication = Communication.PRINTED,
) -> tuple[float, float]:
    """(swap, rest) of a boundary, both directions together, in elements.

    Every entry of the table is either a multiple of a * (1 - a), for layouts
    cut both ways, or of 1 - a, for one that a half has a part of and needs
    whole; the two are told apart at a = 0, where only the second is left.
    From rows to columns (I to II) of 100 elements each half lacks a (1 - a)
    of them in both directions: swap 200. From columns to the whole (III to
    III) it lacks 1 - a of them, once: rest 100.
    """
    half = sum(boundary(producer, consumer, 0.5, table))
    whole = sum(boundary(producer, consumer, 0.0, table))
    return (0.0, whole * elements) if whole else (4 * half * elements, 0.0)
