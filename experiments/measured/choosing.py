"""Of several measured plans of one model on one machine: how good is the one we choose."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from experiments.measured.errors import Outcome

PLANS = 5
"""From so many measured plans on there is something to choose."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Plans of one model, batch and machine that were measured, and the fastest predicted.

    ``slower`` is how much longer its measured step is than the fastest measured one's, as
    a share; ``spread`` is the slowest measured over the fastest measured.
    """

    model: str
    chips: int
    chip: str
    plans: int
    spread: float
    slower: float
    chosen: str


def choices(outcomes: Iterable[Outcome]) -> list[Choice]:
    """One for each group of at least PLANS rows that differ in their plan alone.

    Rows with no prediction are not among the plans; those whose source's factor they set
    are, for a factor does not change an order.
    """
    groups: dict[tuple[object, ...], list[Outcome]] = {}
    for one in outcomes:
        row = one.row
        if one.predicted_s is not None and row.step_s is not None:
            key = (row.source, row.hw, row.gpus, row.model, row.gbs, row.seq, row.precision)
            groups.setdefault(key, []).append(one)
    return [_choice(group) for group in groups.values() if len(group) >= PLANS]


def _choice(group: list[Outcome]) -> Choice:
    measured = [one.row.step_s or 0.0 for one in group]
    chosen = min(group, key=lambda one: (one.predicted_s or 0.0, one.row.id))
    row, best = chosen.row, min(measured)
    return Choice(
        row.model,
        row.gpus,
        row.hw,
        len(group),
        max(measured) / best,
        (row.step_s or 0.0) / best - 1,
        row.id,
    )
