"""A grid of varied values, to look at."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Number
from typing import TYPE_CHECKING, Any

from experiments.commands.sweep import COLUMNS, overflows
from experiments.face.asked import Study
from experiments.face.forms import Vary
from experiments.face.inputs import option_text
from experiments.face.notices import tell
from experiments.face.result import Result
from experiments.face.step import REMEDY, StepResult, stepped
from experiments.output import UsageError
from experiments.studies.options import MODEL_OPTIONS, Axis, parse_axes
from experiments.studies.step_numbers import check_metrics
from experiments.studies.sweep import (
    Crossover,
    Grid,
    all_unread,
    changes_of_place,
    sweep,
)

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from rich.table import Table


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SweepResult(Result):
    """A table with a row for each case of a grid."""

    grid: Grid
    table: pandas.DataFrame

    @property
    def crossovers(self) -> list[Crossover]:
        """Where two planners change places, along one numeric axis; none of any other grid."""
        return changes_of_place(self.grid, self.table) or []

    def step(self, row: int) -> StepResult:
        """The step of a row of ``to_frame()`` with plan and timeline, simulated again."""
        key = self.table["key"].iloc[row]
        cases = (case for point in self.grid.points() for case in self.grid.cases(point))
        return stepped(next(case for case in cases if case.key == key))

    def title(self) -> str:
        """How many cases, and what is varied."""
        axes = " x ".join(f"{axis.key} ({len(axis.values)})" for axis in self.grid.axes)
        counts = ("network", len(self.grid.networks)), ("planner", len(self.grid.planners))
        words = " x ".join(f"{count} {what}{'s' * (count > 1)}" for what, count in counts)
        return f"{len(self.table):,} cases: {words} x {axes}"

    def shown(self) -> list[Table | str]:
        """What ``accelarray sweep`` prints."""
        from experiments.commands.sweep import tables

        return tables(self.grid, self.table, changes_of_place(self.grid, self.table))

    def to_dict(self) -> dict[str, Any]:
        """The rows that ``accelarray sweep --output x.json`` writes, and what is varied."""
        from experiments.commands.sweep import records

        return {
            "vary": [axis.title for axis in self.grid.axes],
            "rows": records(self.table),
            "warnings": all_unread(self.grid),
        }

    def to_frame(self) -> pandas.DataFrame:
        """A row for each case: inputs, varied values, seconds, speedup, shares of the step.

        A varied quantity is a column of numbers named with its unit.
        """
        return self.table.copy()

    def plot(self) -> Figure:
        """Curves over one varied key, a heat map of two; raises UsageError for more."""
        from experiments.pictures.plots import check_drawable, plot_sweep

        check_drawable(self.grid)
        return plot_sweep(self.grid, self.table, self.crossovers)


def swept(study: Study, varied: Vary) -> SweepResult:
    """Run a grid; how many cases do not fit in memory is a warning."""
    asked = study.conditions
    grid = Grid(
        study.networks,
        study.planners,
        asked.given,
        axes_of(varied),
        asked.changes,
        asked.batch,
        asked.objective,
        asked.communication,
        None if asked.as_usual else asked.execution,
    )
    points = grid.points()
    for point in points:
        check_metrics(study.metrics, grid.cases(point)[0].array)
    with study.going(len(points) * len(grid.cases(points[0]))) as (runner, progress):
        table = sweep(grid, runner, progress)
    if said := overflows(table):
        tell(f"{said} {REMEDY}")
    hidden = [column for metric, column in COLUMNS.items() if metric not in study.metrics]
    return SweepResult(grid, table.drop(columns=hidden))


def axes_of(varied: Vary) -> tuple[Axis, ...]:
    """What is varied; raises UsageError."""
    if isinstance(varied, str):
        return parse_axes([varied])
    if isinstance(varied, Mapping):
        return parse_axes(f"{key}={_values(key, values)}" for key, values in varied.items())
    return parse_axes(varied)


def _values(key: str, values: str | Iterable[object]) -> str:
    """Values as ``--vary`` has them; text is that already."""
    if isinstance(values, str):
        return values
    texts = [_text(key, value) for value in values]
    for text in texts:
        if "," in text:
            raise UsageError(f"vary {key!r}: {text!r} has a comma, which parts values; rename it")
    return ",".join(texts)


def _text(key: str, value: object) -> str:
    if key in MODEL_OPTIONS:
        return option_text(key, value)
    if not isinstance(value, str | Number | os.PathLike):
        raise UsageError(
            f"vary {key!r}: expected numbers, names or quantities with a unit, found a "
            f"{type(value).__name__}"
        )
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
