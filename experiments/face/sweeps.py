"""A grid of varied values, to look at."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from experiments.face.result import Result
from experiments.face.step import StepResult, stepped
from experiments.output import UsageError
from experiments.studies.sweep import Crossover, Grid, crossovers
from experiments.studies.vary import Axis, parse_vary

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from rich.table import Table

    Values = str | Iterable[object]
    Vary = str | Iterable[str] | Mapping[str, Values]
    """What ``--vary`` takes: "KEY=VALUES", several of them, or values by key."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SweepResult(Result):
    """A table with a row for each case of a grid."""

    grid: Grid
    table: pandas.DataFrame

    @property
    def crossovers(self) -> list[Crossover]:
        """Where two planners change places, along one numeric axis; none of any other grid."""
        axes = self.grid.axes
        line = len(axes) == 1 and axes[0].numeric and len(axes[0].values) > 1
        return crossovers(self.table, axes[0]) if line else []

    def step(self, row: int) -> StepResult:
        """The step of a row of ``to_frame()`` with plan and timeline, simulated again."""
        key = self.table["key"].iloc[row]
        cases = (case for point in self.grid.points() for case in self.grid.cases(point))
        return stepped(next(case for case in cases if case.key == key))

    def title(self) -> str:
        """How many cases, and what is varied."""
        axes = " x ".join(f"{axis.key} ({len(axis.values)})" for axis in self.grid.axes)
        networks, planners = len(self.grid.networks), len(self.grid.planners)
        return f"{len(self.table)} cases: {networks} networks x {planners} planners x {axes}"

    def shown(self) -> list[Table | str]:
        """What ``accelarray sweep`` prints."""
        from experiments.commands.sweep import tables

        return tables(self.grid, self.table, self.crossovers)

    def to_dict(self) -> dict[str, Any]:
        """The rows that ``accelarray sweep --output x.json`` writes, and what is varied."""
        from experiments.commands.sweep import records

        return {"vary": [axis.title for axis in self.grid.axes], "rows": records(self.table)}

    def to_frame(self) -> pandas.DataFrame:
        """A row for each case: inputs, varied values, seconds, speedup, shares of the step.

        A varied quantity is a column of numbers named with its unit.
        """
        return self.table.copy()

    def plot(self) -> Figure:
        """Curves over one varied key, a heat map of two; raises UsageError for more."""
        from experiments.pictures.sweep_plots import check_drawable, plot_sweep

        check_drawable(self.grid)
        return plot_sweep(self.grid, self.table, self.crossovers)


def axes_of(vary: Vary) -> tuple[Axis, ...]:
    """What is varied; raises UsageError."""
    if isinstance(vary, str):
        texts = [vary]
    elif isinstance(vary, Mapping):
        texts = [f"{key}={_values(key, values)}" for key, values in vary.items()]
    else:
        texts = list(vary)
    axes = tuple(parse_vary(text) for text in texts)
    ...
