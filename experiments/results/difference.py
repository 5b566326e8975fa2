"""Two steps, and where the difference between them comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table

from experiments.explain.freeing import too_full
from experiments.explain.tables import others
from experiments.output import UsageError, frame_of, table_of
from experiments.pictures.gantt import plot_gantt
from experiments.results.error_band import ErrorBand, band_sentence, widest
from experiments.results.result import Result, readable
from experiments.results.step import StepResult
from experiments.studies.case import Case
from experiments.studies.difference import Change, Difference, difference
from experiments.studies.speedups import warn_inexact
from experiments.studies.step_numbers import measured, names_of
from experiments.terms import SHARES, change, duration
from simulator import Timeline

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class DifferenceResult(Result):
    """Two steps of one network on one array, beside each other."""

    first: StepResult
    second: StepResult
    difference: Difference
    metrics: tuple[str, ...] = ("time",)

    def title(self) -> str:
        """Both labels and times."""
        labels, steps = self.difference.planners, (self.first, self.second)
        both = [
            f"{label} {readable(s.iteration_s)}" for label, s in zip(labels, steps, strict=True)
        ]
        case, other = self.first.case, self.second.case
        array = case.array.name if case.array == other.array else case.array.base
        return f"{case.network.name} on {array}, batch {case.batch}: {' | '.join(both)}"

    def tables(self) -> list[Table | str]:
        """By phase and kind, then the layers that contribute most, then other metrics."""
        result, case = self.difference, self.first.case
        title = f"{case.network.name} on {case.array.name}, batch {case.batch}, {case.execution}"
        steps = [(step.case, step.timeline) for step in (self.first, self.second)]
        tables = difference_tables(result, names_of_both(steps), title)
        whole = self._measured()
        others = [_measured(result, whole)] if whole else []
        spent = "Times are those of a mean core."
        band = band_sentence(self.error_band)
        return [*tables, spent, *others, *band, *self._full(), *self._unread()]

    @property
    def error_band(self) -> ErrorBand | None:
        """The widest band of both; None for machines of which no measured step is known."""
        return widest([self.first.case, self.second.case])

    def to_dict(self) -> dict[str, Any]:
        """What ``papers compare --format json`` prints: seconds of an average core, all rows.

        Joules and bytes are those of the whole steps.
        """
        result, case, whole = self.difference, self.first.case, _whole(self.difference)
        said = [*self.first.warnings, *self.second.warnings]

        def row(part: Change, **label: str) -> dict[str, Any]:
            return label | {
                "core_s": [result.seconds(core_ps) for core_ps in part.core_ps],
                "difference_s": result.seconds(part.change_ps),
            }

        return {
            "network": case.network.name,
            "array": case.array.name,
            "batch": case.batch,
            "objective": case.objective,
            "execution": str(case.execution),
            "planners": list(result.planners),
            "error_band": band.to_json() if (band := self.error_band) else None,
            "cores": result.cores,
            "iteration_s": [result.seconds(core_ps) for core_ps in whole.core_ps],
            "difference_s": result.seconds(whole.change_ps),
            "phases": [row(part, phase=part.phase, kind=part.kind) for part in result.phases],
            "layers": [row(part, layer=part.layer or part.kind) for part in result.layers],
            **self._measured(),
            "warnings": [*dict.fromkeys(said), *self._unread()],
        }

    def rows(self) -> list[dict[str, Any]]:
        """The layers as a spreadsheet: seconds an average core spends on each under both."""
        result = self.difference
        return [
            {
                "layer": part.layer or part.kind,
                **{
                    f"{planner}_s": result.seconds(core_ps)
                    for planner, core_ps in zip(result.planners, part.core_ps, strict=True)
                },
                "difference_s": result.seconds(part.change_ps),
            }
            for part in result.layers
        ]

    def _measured(self) -> dict[str, list[Any]]:
        """Joules and bytes of both steps, where asked for."""
        both = [measured(self.metrics, step.timeline) for step in (self.first, self.second)]
        return {key: [values[key] for values in both] for key in both[0]}

    def _full(self) -> list[str]:
        """Which of both does not fit in memory: its time is no reason to prefer it."""
        steps = zip(self.difference.planners, (self.first, self.second), strict=True)
        full = {name: too_full(step.timeline.memory) for name, step in steps}
        return [f"{name} does not fit: {said}." for name, said in full.items() if said]

    def _unread(self) -> list[str]:
        """What of either spec is not read, each sentence once."""
        return list(dict.fromkeys([*self.first.unread, *self.second.unread]))

    def to_frame(self) -> pandas.DataFrame:
        """A row for each layer or boundary, the largest change first, and one for waiting.

        Seconds that an average core spends in either step, and the change.
        """
        first, second = self.difference.planners
        rows = [
            (row["layer"], *row["core_s"], row["difference_s"]) for row in self.to_dict()["layers"]
        ]
        return frame_of(rows, ["layer", f"{first} [s]", f"{second} [s]", "difference [s]"])

    def plot(self) -> Figure:
        """Both Gantt charts on one time axis."""
        return plot_gantt([self.first.chart(), self.second.chart()])


def differing(
    first: StepResult,
    second: StepResult,
    labels: tuple[str, str] | None = None,
    metrics: tuple[str, ...] = ("time",),
) -> DifferenceResult:
    """Compare two steps; raises UsageError unless network, array and batch are the same."""
    for given in (first, second):
        if not isinstance(given, StepResult):
            what = type(given).__name__
            raise UsageError(f"difference of a {what}: takes two steps, as simulate() returns")
    ours, theirs = first.case, second.case
    for what, one, other in (
        ("networks", ours.network.name, theirs.network.name),
        ("arrays", ours.array.base, theirs.array.base),
        ("cores", first.timeline.cores, second.timeline.cores),
        ("batches", ours.batch, theirs.batch),
    ):
        if one != other:
            raise UsageError(
                f"steps of different {what} ({one}, {other}) cannot be compared layer by layer; "
                "to_frame() and sweep() put them beside each other"
            )
    both = labels or _labels(ours.inputs, theirs.inputs)
    for step in (first, second):
        warn_inexact(step.case.network.name, step.plan)
    found = difference(both, (first.timeline, second.timeline))
    return DifferenceResult(first, second, found, metrics)


def _labels(first: dict[str, Any], second: dict[str, Any]) -> tuple[str, str]:
    """What tells the two steps apart; planners, where nothing does."""
    keys = [key for key in {**first, **second} if first.get(key) != second.get(key)]
    words = [
        ", ".join(
            str(of[key]) if key in ("planner", "execution") else f"{key}={of[key]}"
            for key in keys or ["planner"]
            if key in of
        )
        for of in (first, second)
    ]
    return words[0] or first["planner"], words[1] or second["planner"]


MOST_LAYERS = 10
"""Layers in the table; the rest are summed up in one row."""


def _whole(result: Difference) -> Change:
    first, second = result.iteration_ps
    return Change((first * result.cores, second * result.cores))


def _measured(result: Difference, whole: dict[str, list[float]]) -> Table:
    """Joules and gigabytes of the whole step."""
    table = _table(result, "", "whole step", "change")
    words = {"energy_j": ("energy [J]", 1.0), "traffic_bytes": ("traffic [GB]", 1e9)}
    for key, values in whole.items():
        name, unit = words[key]
        first, second = (value / unit for value in values)
        part = f"{second / first - 1:+z.1%}" if first else "-"
        table.add_row(name, f"{first:.6g}", f"{second:.6g}", f"{second - first:+.6g}", part)
    return table


def names_of_both(steps: Iterable[tuple[Case, Timeline]]) -> dict[tuple[str, str], str]:
    """What operations are called; both names where the plans use different collectives."""
    found = [names_of(*step) for step in steps]
    keys = dict.fromkeys(key for names in found for key in names)
    return {
        key: " / ".join(dict.fromkeys(names[key] for names in found if key in names))
        for key in keys
    }


def difference_tables(
    result: Difference, names: Mapping[tuple[str, str], str], title: str
) -> tuple[Table, Table]:
    """By operation, called by their ``names``, and by layer."""
    phases, layers = _table(result, title, "operation"), _table(result, "", "layer")
    for part in result.phases:
        _add(phases, result, names.get((part.phase, part.kind), SHARES["waiting"]), part)
    for name, part in _most(result):
        _add(layers, result, name, part)
    for table in (phases, layers):
        table.add_section()
        _add(table, result, "step", _whole(result))
    return phases, layers


def _most(result: Difference) -> list[tuple[str, Change]]:
    """The layers that contribute most, what the others do together, and waiting."""
    *layers, waiting = result.layers
    rows = [(part.layer, part) for part in layers[:MOST_LAYERS]]
    if rest := layers[MOST_LAYERS:]:
        first, second = (sum(part.core_ps[i] for part in rest) for i in (0, 1))
        rows.append((others(len(rest)), Change((first, second))))
    return [*rows, (SHARES["waiting"], waiting)]


def _table(result: Difference, title: str, what: str, part: str = "of the whole") -> Table:
    return table_of(title, (what, *result.planners, "difference", part), (what,))


def _add(table: Table, result: Difference, name: str, part: Change) -> None:
    whole = _whole(result).change_ps
    times = [duration(result.seconds(core_ps)) for core_ps in part.core_ps]
    share = f"{part.change_ps / whole:z.1%}" if whole else "-"
    table.add_row(name, *times, change(result.seconds(part.change_ps)), share)
