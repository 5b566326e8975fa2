"""A reproduced figure: rows of ours beside the paper's, and what to know about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.studies.published_values import published

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure or table of a paper.

    ``shape`` says how to show it: ``bars`` (rows have ``axis``, planner, ours,
    published, difference), ``lines`` (the same along a number), ``plans`` (rows
    have network, level digits and the published ones) or ``map`` (every row a
    point of a search, ``axes`` its two coordinates, ours its height). ``label``
    names ours, with the unit where it has one, ``case`` array, batch and execution model.
    """

    key: str
    title: str
    shape: str
    label: str
    rows: tuple[Row, ...]
    messages: tuple[str, ...] = ()
    axes: tuple[str, ...] = ("network",)
    case: str = ""

    @property
    def planners(self) -> list[str]:
        """Planners in the order of the rows."""
        return list(dict.fromkeys(row["planner"] for row in self.rows if "planner" in row))


def beside(ours: float, published: float | None, **labels: Any) -> Row:
    """A row with the relative difference; None where the paper's value is not at hand."""
    difference = None if published is None else ours / published - 1
    return labels | {"ours": ours, "published": published, "difference": difference}


def bars_of(figure: str) -> dict[tuple[str, str], float]:
    """HyPar's published bars of one figure, by network and planner."""
    return {
        (row["network"], row["planner"]): float(row["value"])
        for row in published("hypar_bars")
        if row["figure"] == figure
    }


def largest(figures: Sequence[Figure]) -> list[Row]:
    """For each figure and planner with published values, the row that is furthest from them."""
    found: list[Row] = []
    for figure in figures:
        for planner in figure.planners:
            rows = [row for row in figure.rows if row["planner"] == planner]
            compared = [row for row in rows if row["difference"] is not None]
            if compared:
                worst = max(compared, key=lambda row: abs(row["difference"]))
                where = str(worst[figure.axes[0]])
                found.append(
                    {"figure": figure.key, "planner": planner, "values": len(compared)}
                    | {"where": where, "difference": worst["difference"]}
                )
    return found
