"""A grid of varied values, to look at."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Number
from typing import TYPE_CHECKING, Any

from rich.table import Table

from experiments.api.argument_types import Vary
from experiments.api.inputs import option_text
from experiments.api.requests import Study, check_planned, running
from experiments.notices import REMEDY, tell
from experiments.output import UsageError, table
from experiments.pictures.plots import check_drawable, plot_sweep
from experiments.results.error_band import ErrorBand, band_sentence, widest
from experiments.results.formats import rows_of, with_aliases
from experiments.results.result import Result
from experiments.results.step import StepResult, stepped
from experiments.studies.case import Case
from experiments.studies.fits.estimated import run_estimated, told
from experiments.studies.options import MODEL_OPTIONS, OF_COMMAS, Axis, check_axes, parse_axes
from experiments.studies.pipelining import BETWEEN_BATCHES, in_inference, of_training
from experiments.studies.step_numbers import MEASURES, check_metrics
from experiments.studies.sweep import Crossover, Grid, all_unread, changes_of_place, sweep
from experiments.terms import duration
from hardware import format_quantity
from planners import AXES

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class SweepResult(Result):
    """A table with a row for each case of a grid."""

    grid: Grid
    table: pandas.DataFrame
    error_band: ErrorBand | None = None
    """The widest band of its cases; None for machines of which no measured step is known."""

    @property
    def crossovers(self) -> list[Crossover]:
        """Where two planners change places, along one numeric axis; none of any other grid."""
        return changes_of_place(self.grid, self.table) or []

    def step(self, row: int) -> StepResult:
        """The step of row number ``row`` of ``to_frame()``, simulated again: plan and timeline.

        Raises UsageError where there is no such row.
        """
        if not isinstance(row, Integral) or not 0 <= row < len(self.table):
            raise UsageError(f"step {row!r}: a row's number, from 0 to {len(self.table) - 1}")
        key = self.table["key"].iloc[row]
        cases = (case for point in self.grid.points() for case in self.grid.cases(point))
        return stepped(next(case for case in cases if case.key == key))

    def title(self) -> str:
        """How many cases, and what is varied."""
        axes = " x ".join(f"{axis.key} ({len(axis.values)})" for axis in self.grid.axes)
        counts = ("network", len(self.grid.networks)), ("planner", len(self.grid.planners))
        words = " x ".join(f"{count} {what}{'s' * (count > 1)}" for what, count in counts)
        return f"{len(self.table):,} cases: {words} x {axes}"

    def tables(self) -> list[Table | str]:
        """The rows, the crossovers, and which planners lose."""
        return [_table(self.grid, self.table), *self.sentences()]

    def sentences(self) -> list[str]:
        """The crossovers, which planners lose, and what of the specs is not read."""
        band = band_sentence(self.error_band)
        return [*told(self.table), *band, *_sentences(self.grid, self.table)]

    def to_dict(self) -> dict[str, Any]:
        """What is varied, and the rows that ``accelarray sweep --output x.json`` writes."""
        return {
            "vary": [axis.title for axis in self.grid.axes],
            "error_band": band.to_json() if (band := self.error_band) else None,
            "rows": records(self.table),
            "warnings": all_unread(self.grid),
        }

    def rows(self) -> list[dict[str, Any]]:
        """Those of ``to_frame``."""
        return rows_of(self.table)

    def to_frame(self) -> pandas.DataFrame:
        """A row for each case: inputs, varied values, seconds, speedup, shares of the step.

        A varied quantity is a column of numbers named with its unit.
        """
        return with_aliases(self.table)

    def plot(self) -> Figure:
        """Curves over one varied key, a heat map of two; raises UsageError for more."""
        check_drawable(self.grid)
        if more := [column for column in MEASURES.values() if column in self.table]:
            tell(
                f"The picture shows speedups and times, not {' and '.join(more)} as the table does."
            )
        return plot_sweep(self.grid, self.table, self.crossovers)


def planners_for(planners: Any, axes: Sequence[Axis]) -> Any:
    """What "all" planners are where degrees of parallelism are varied: the one that reads them."""
    varied = any(axis.key == "parallel" for axis in axes)
    return AXES if planners == "all" and varied else planners


def grid_of(study: Study, axes: tuple[Axis, ...]) -> Grid:
    """What is varied, in networks, planners and conditions; raises UsageError."""
    asked, planners = study.conditions, study.planners
    keys = [axis.key for axis in axes]
    if "price" in keys:
        raise UsageError("--vary price: a sweep shows no cost; simulate --price does")
    check_planned(planners, {axis.key: axis.values[0].text for axis in axes})
    check_axes(planners, keys)
    return Grid(
        study.given,
        planners,
        asked.given,
        axes,
        asked.changes,
        asked.batch,
        asked.options["objective"],
        asked.options["communication"],
        study.executed_by,
        study.run_by,
    )


def swept(study: Study, grid: Grid, *, estimate: bool = False) -> SweepResult:
    """Run a grid, or ``estimate`` it; how many cases do not fit in memory is a warning."""
    cases = [case for point in grid.points() for case in grid.cases(point)]
    for case in cases:
        check_metrics(study.metrics, case.array)
    with running(study.options, len(cases)) as (runner, progress, _):
        if estimate:  # nothing of it is a simulated step, which a store has
            if runner.store is not None:
                tell("A store keeps simulated steps alone, not estimates.")
            runner = replace(runner, store=None)
        table = sweep(grid, runner, progress, run_estimated if estimate else None)
    if said := overflows(table):
        tell(f"{said} {REMEDY}")
    hidden = [column for metric, column in MEASURES.items() if metric not in study.metrics]
    return SweepResult(grid, table.drop(columns=hidden), widest(cases))


def axes_of(varied: Vary) -> tuple[Axis, ...]:
    """What is varied; raises UsageError."""
    if isinstance(varied, str):
        varied = [varied]
    elif isinstance(varied, Mapping):
        varied = [f"{key}={_values(key, values)}" for key, values in varied.items()]
    if not (axes := parse_axes(varied)):
        raise UsageError('vary is empty: name what varies, as {"batch": [64, 128]}')
    return axes


def _values(key: str, values: str | Iterable[object]) -> str:
    """Values as ``--vary`` has them; text is that already."""
    if isinstance(values, str):
        return values
    if not isinstance(values, Iterable):
        raise UsageError(f"vary {key!r}: {values!r} is one value; give several, as [{values!r}]")
    texts = [_text(key, value) for value in values]
    if key in OF_COMMAS:
        return ";".join([*texts, ""])
    for text in texts:
        if "," in text and text[:1] != "[":
            raise UsageError(f"vary {key!r}: {text!r} has a comma, which parts values; rename it")
    return ",".join(texts)


def _text(key: str, value: object) -> str:
    if key in MODEL_OPTIONS:
        return option_text(key, value)
    if isinstance(value, list):
        return f"[{','.join(_text(key, item) for item in value)}]"
    if not isinstance(value, str | Number | os.PathLike):
        raise UsageError(
            f"vary {key!r}: expected numbers, names or quantities with a unit, found a "
            f"{type(value).__name__}"
        )
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def overflows(table: pandas.DataFrame) -> str:
    """How many cases do not fit in memory, and all about the first of them; "" if all do."""
    if "overflow" not in table or (over := table["overflow"].dropna()).empty:
        return ""
    return f"{len(over)} of {len(table)} cases do not fit in memory, the first: {over.iloc[0]}"


def records(table: pandas.DataFrame) -> list[dict[str, Any]]:
    """The rows as JSON has them, None where a value is unknown."""
    rows = rows_of(table)
    for row in rows:
        if "warnings" in row:
            row["warnings"] = row["warnings"].splitlines()
    return rows


HEADINGS = {"iteration_s": "step time", "energy_j": "energy [J]", "traffic_bytes": "traffic [GB]"}


def _table(grid: Grid, cases: pandas.DataFrame) -> Table:
    axes = [axis.title for axis in grid.axes]
    always, executions = _executions(cases, axes)
    cases = cases.assign(execution=executions) if "execution" not in axes else cases
    cases = cases.assign(speedup=cases["speedup"].where(cases["baseline_fits"]))
    same = [key for key in ("network", "array", "planner") if cases[key].nunique() == 1]
    common = [key for key in same if key not in axes]
    own = [key for key in ("network", "planner") if key not in common and key not in axes]
    apart = ["execution"] if "execution" not in axes and any(executions) else []
    columns = [*own, *axes, *apart, "iteration_s", "speedup"]
    if overflows(cases):
        cases = cases.assign(fits=["yes" if fits else "no" for fits in cases["overflow"].isna()])
        columns.append("fits")
    columns += [column for column in MEASURES.values() if column in cases]
    units = {axis.title: axis for axis in grid.axes if axis.unit}
    written = {
        axis.title: {value.number: value.label for value in axis.values} for axis in grid.axes
    }

    def shown(key: str, value: object) -> str:
        if key in written and value in written[key]:
            return written[key][value]
        if not isinstance(value, float):
            return str(value)
        if math.isnan(value):
            return "-"
        if key == "iteration_s":
            return duration(value)
        return f"{value / 1e9 if key == 'traffic_bytes' else value:.4g}"

    def title(key: str) -> str:
        return units[key].key if key in units else HEADINGS.get(key, key)

    rows = [
        {title(key): shown(key, value) for key, value in row}
        for row in (
            zip(columns, row, strict=True)
            for row in cases[columns].astype(object).to_numpy().tolist()
        )
    ]
    words = [*(str(cases[key].iloc[0]) for key in common), *always]
    return table(", ".join([*words, f"{len(cases)} case{'s' * (len(cases) > 1)}"]), rows)


def _executions(cases: pandas.DataFrame, axes: Sequence[str]) -> tuple[list[str], list[str]]:
    """How all cases are executed, and what else each one is; without what is varied."""
    if "execution" in axes:
        return [], []
    parts = [str(text).split(", ") for text in cases["execution"]]
    always = [part for part in parts[0] if all(part in own for own in parts)]
    varied = tuple(key.replace("_", "-") for key in axes)
    named = [str(text).split(",") for text in cases["parallel"]] if "parallel" in axes else None
    others = [
        [
            part
            for part in own
            if part not in always
            and not part.startswith(varied)
            and not (named and {*part.split()} <= {*named[row]})
        ]
        for row, own in enumerate(parts)
    ]
    return always, [", ".join(own) for own in others]


def _of_inference(every: Sequence[Case]) -> Iterator[str]:
    """What is to be told of cases of which some are inference."""
    runs = (case.execution for case in every)
    stagings = (one.staging for one in runs if one.inference and one.staging)
    if any((one.parallel.pp if one.parallel else one.stages) > 1 for one in stagings):
        yield BETWEEN_BATCHES
    yield from in_inference(word for one in every for word in of_training(one.array, one.execution))


def _sentences(grid: Grid, cases: pandas.DataFrame) -> Iterator[str]:
    crossed = changes_of_place(grid, cases)
    for cross in crossed or []:
        unit = grid.axes[0].unit
        below, above = (
            format_quantity(value, unit) if unit else f"{value:.4g}"
            for value in (cross.below, cross.above)
        )
        few = (float(f"{cross.value:.{digits}g}") for digits in (2, 3, 4))
        rounded = next((one for one in few if cross.below < one < cross.above), cross.value)
        about = format_quantity(rounded, unit) if unit else f"{rounded:g}"
        exact = cross.below == cross.above
        where = f"at {below}" if exact else f"between {below} and {above}, at about {about}"
        yield f"{cross.network}: {cross.first} = {cross.second} {where}"
    fair = cases["baseline_fits"]
    if not fair.all():
        rows = cases["planner"].nunique()  # each beside one case of data parallelism
        yield (
            f"data parallelism does not fit in memory in {(~fair).sum() // rows} of its "
            f"{len(cases) // rows} cases: no speedup over it can be had there"
        )
    losers = cases[fair & (cases["speedup"] < 1)]
    for (planner, network), losing in losers.groupby(["planner", "network"]):
        of = ((cases["planner"] == planner) & (cases["network"] == network)).sum()
        points = f" in {len(losing)} of {of} cases" if of > 1 else ""
        whole = planner == AXES and not cases["execution"].str.contains("micro-batches of").any()
        once = " (a device takes its whole share at once)" * whole
        yield f"{planner} is slower than data parallelism{once} for {network}{points}"
    if cases["execution"].str.contains("inference").any():
        every = [case for point in grid.points() for case in grid.cases(point)]
        yield from _of_inference(every)
    if crossed == [] and len(grid.planners) > 1:
        yield "no two planners change places"
    yield from all_unread(grid)
