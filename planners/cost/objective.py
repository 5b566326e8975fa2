"""What a split costs: the price of FLOPs and of elements, and what a boundary moves.

One formula serves both objectives. A half spends ``share * FLOPs`` at
``per_flop`` and the elements it receives at ``per_element``; a split costs
what its slower half spends. ``time`` fills in seconds (AccPar),
``traffic`` counts elements alone (the authors' released program).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from hardware import Half
from planners.errors import PlanError
from planners.partition import Communication, PartitionType, boundary


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


def edge(
    producer: PartitionType,
    consumer: PartitionType,
    elements: float,
    table: Communication = Communication.PRINTED,
    *,
    operand: bool = False,
) -> tuple[float, float]:
    """(swap, rest) of a boundary, both directions together, in elements.

    Every entry of the table is either a multiple of a * (1 - a), for layouts
    cut both ways, or of 1 - a, for one that a half has a part of and needs
    whole; the two are told apart at a = 0, where only the second is left.
    From rows to columns (I to II) of 100 elements each half lacks a (1 - a)
    of them in both directions: swap 200. From columns to the whole (III to
    III) it lacks 1 - a of them, once: rest 100.
    """
    half = sum(boundary(producer, consumer, 0.5, table, operand))
    whole = sum(boundary(producer, consumer, 0.0, table, operand))
    return (0.0, whole * elements) if whole else (4 * half * elements, 0.0)
