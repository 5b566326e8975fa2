"""A paper's figure: what each of its rows takes, then rows of ours beside the paper's."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from experiments.studies.running.store import Store

Row = dict[str, Any]
Point = Callable[[], Row]
"""Runs what a row of a figure takes, and returns the row."""
Group = TypeVar("Group", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure or table of a paper: ``rows`` and ``messages`` are there once it is made.

    ``shape`` says how to show it: ``bars`` (rows have ``axis``, planner, ours,
    published, difference), ``lines`` (the same along a number), ``plans`` (rows
    have network, level digits and the published ones) or ``map`` (every row a
    point of a search, ``axes`` its two coordinates, ours its height). ``label``
    names ours, with the unit where it has one, ``case`` array, batch and execution model;
    ``notes`` may be made of the rows.
    """

    title: str
    label: str
    points: Sequence[Point] = ()
    notes: Sequence[str] | Callable[[Sequence[Row]], Sequence[str]] = ()
    axes: tuple[str, ...] = ("network",)
    case: str = ""
    shape: str = "bars"
    rows: tuple[Row, ...] = ()
    messages: tuple[str, ...] = ()

    @property
    def planners(self) -> list[str]:
        """Planners in the order of the rows."""
        return list(dict.fromkeys(row["planner"] for row in self.rows if "planner" in row))

    def made(
        self,
        progress: Callable[[str], None] = lambda done: None,
        store: Store | None = None,
        name: str = "",
    ) -> Figure:
        """The same with its rows; ``progress`` hears of each, ``store`` keeps them by ``name``."""
        rows: list[Row] = []
        for number, point in enumerate(self.points):
            row = point() if store is None else store.get_or_make((name, number), point)
            rows.append(row)
            progress(", ".join(str(row[name]) for name in (*self.axes, "planner") if name in row))
        messages = self.notes(rows) if callable(self.notes) else self.notes
        return replace(self, rows=tuple(rows), messages=tuple(messages))


def beside(ours: float, published: float | None, **labels: Any) -> Row:
    """A row with the relative difference; None where the paper's value is not at hand."""
    difference = None if published is None else ours / published - 1
    return labels | {"ours": ours, "published": published, "difference": difference}


def grid(
    axis: str,
    groups: Iterable[Group],
    planners: Iterable[str],
    value: Callable[[Group, str], float],
    published: Mapping[tuple[Group, str], float] | None = None,
    **labels: Any,
) -> list[Point]:
    """A point for each group and planner, groups first; ``labels`` are those of all rows."""
    names, theirs = list(planners), published or {}

    def row(group: Group, planner: str) -> Row:
        said = labels | {axis: group, "planner": planner}
        return beside(value(group, planner), theirs.get((group, planner)), **said)

    return [partial(row, group, planner) for group in groups for planner in names]


def largest(figures: Mapping[str, Figure]) -> list[Row]:
    """For each figure and planner with published values, the row that is furthest from them."""
    found: list[Row] = []
    for key, figure in figures.items():
        for planner in figure.planners:
            rows = [row for row in figure.rows if row["planner"] == planner]
            compared = [row for row in rows if row["difference"] is not None]
            if compared:
                worst = max(compared, key=lambda row: abs(row["difference"]))
                where = str(worst[figure.axes[0]])
                found.append(
                    {"figure": key, "planner": planner, "values": len(compared)}
                    | {"where": where, "difference": worst["difference"]}
                )
    return found
