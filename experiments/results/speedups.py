"""Planners' speedups over data parallelism, to look at: on one array, and on many sizes of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from rich.table import Table

from experiments.api.requests import Study, running
from experiments.notices import REMEDY, tell
from experiments.output import READABLE, UsageError, table_of, width
from experiments.pictures.plots import plot_levels, plot_speedups
from experiments.results.error_band import ErrorBand, band_sentence, widest
from experiments.results.formats import rows_of, with_aliases
from experiments.results.result import Result
from experiments.results.step import StepResult, stepped
from experiments.studies.case import Case
from experiments.studies.comparison import Level, compare, named, sweep_levels
from experiments.studies.speedups import (
    BASELINE,
    Comparison,
    geometric_mean,
    messages,
    over_memory,
    slower,
)
from experiments.studies.step_numbers import WORDS, check_metrics
from experiments.terms import aliased

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


AnySpeedups = TypeVar("AnySpeedups", "ComparisonResult", "ScalingResult")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ComparisonResult(Result):
    """Networks under planners on one array; ``cases`` are what was simulated, by both names."""

    comparison: Comparison
    cases: dict[tuple[str, str], Case]
    forewarned: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        """False when the keyboard interrupted it: some networks are missing."""
        return self.comparison.complete

    @property
    def geomean(self) -> dict[str, float]:
        """Geometric mean of each planner's speedups."""
        return self.comparison.geomean

    @property
    def error_band(self) -> ErrorBand | None:
        """The widest band of its cases; None for machines of which no measured step is known."""
        return widest(self.cases.values())

    @property
    def messages(self) -> list[str]:
        """What to know about it, in sentences."""
        return [*band_sentence(self.error_band), *messages(self.comparison)]

    def step(self, network: str, planner: str) -> StepResult:
        """One of its steps with plan and timeline, simulated again; raises UsageError."""
        case = self.cases.get((network, planner))
        if case is None:
            pairs = ", ".join(f"({n!r}, {p!r})" for n, p in self.cases)
            raise UsageError(f"no step of {network!r} under {planner!r}; one of {pairs}")
        return stepped(case)

    def title(self) -> str:
        """How many networks, and each planner's mean speedup but the baseline's, which is 1."""
        means = [f"{name} {mean:.3g}x" for name, mean in self.geomean.items() if name != BASELINE]
        words = ", ".join(means or [BASELINE])
        return f"{_networks(self.comparison)} on {self.comparison.case}: {words}"

    def tables(self) -> list[Table | str]:
        """What ``accelarray papers speedup`` prints, with what to know about it underneath."""
        result = self.comparison
        found = [
            one
            for metric in result.metrics
            for one in (_times(result) if metric == "time" else [metric_table(result, metric)])
        ]
        return [*found, *self.messages, *result.unread]

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray papers speedup --format json`` prints."""
        result = self.comparison
        networks = {case.network.name: case.network for case in self.cases.values()}.values()
        said = [f"{network.name}: {note}" for network in networks for note in network.notes]
        return {
            "array": result.array,
            "batch": result.batch,
            "execution": result.execution,
            "communication": result.communication,
            "complete": result.complete,
            "error_band": band.to_json() if (band := self.error_band) else None,
            "notes": self.messages,
            "rows": _rows(result),
            "geomean": result.geomean,
            **_other_means(result),
            "published": {name: value.speedup for name, value in result.published.items()},
            "published_certainty": {n: value.certainty for n, value in result.published.items()},
            "warnings": [*said, *self.forewarned, *result.overflows, *result.unread],
        }

    def rows(self) -> list[dict[str, Any]]:
        """Those of ``to_frame``."""
        return rows_of(self.to_frame())

    def to_frame(self) -> pandas.DataFrame:
        """A row for each network and planner: seconds, speedup, and what else applies."""
        return with_aliases(self.comparison.to_frame())

    def plot(self) -> Figure:
        """Bars for each network and the geometric mean, with the paper's where they apply."""
        return plot_speedups(self.comparison)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ScalingResult(Result):
    """The same comparison on arrays of 2, 4, 8, … accelerators, in an array's proportions."""

    array: str
    batch: int
    levels: Sequence[Level]
    complete: bool = True
    """False when the keyboard interrupted it: the last sizes are missing."""
    forewarned: tuple[str, ...] = ()

    def title(self) -> str:
        """How many networks, on how many sizes."""
        first, last = self.levels[0], self.levels[-1]
        sizes = f"{first.accelerators:,}...{last.accelerators:,} accelerators"
        return f"{_networks(first.result)} on {self.array}, {sizes}"

    def tables(self) -> list[Table | str]:
        """Means by number of levels, a table for each metric, and which plans lose."""
        first = self.levels[0].result
        found = [self._table(metric) for metric in first.metrics]
        losing = [
            f"{level.levels} levels: {said}"
            for level in self.levels
            for said in (*slower(level.result), *over_memory(level.result))
        ]
        return [*found, *losing, *first.unread]

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray papers speedup --levels --format json`` prints."""
        results = [level.result for level in self.levels]
        return {
            "array": self.array,
            "batch": self.batch,
            "execution": results[0].execution,
            "levels": [
                {
                    "levels": level.levels,
                    "accelerators": level.accelerators,
                    "rows": _rows(level.result),
                    "geomean": level.result.geomean,
                    **_other_means(level.result),
                }
                for level in self.levels
            ],
            "warnings": [
                *self.forewarned,
                *(fault for result in results for fault in result.overflows),
                *results[0].unread,
            ],
        }

    def rows(self) -> list[dict[str, Any]]:
        """Those of ``to_frame``."""
        return rows_of(self.to_frame())

    def to_frame(self) -> pandas.DataFrame:
        """A row for each size, network and planner."""
        import pandas

        frames = [
            level.result.to_frame().assign(levels=level.levels, accelerators=level.accelerators)
            for level in self.levels
        ]
        return pandas.concat(frames, ignore_index=True)

    def _table(self, metric: str) -> Table:
        first = self.levels[0].result
        networks = first.networks
        of = networks[0] if len(networks) == 1 else f"geometric mean of {len(networks)} networks"
        case = replace(first, array=f"{self.array}, {of}", batch=self.batch).case
        heads = ("levels", "accelerators", *first.planners)
        table = table_of(f"{_words(metric)}, {case}", heads, ())
        for level in self.levels:
            result = level.result
            means = [
                _cell(metric, mean) + result.mark(name, *networks)
                for name, mean in result.means(metric).items()
            ]
            table.add_row(str(level.levels), f"{level.accelerators:,}", *means)
        return table

    def plot(self) -> Figure:
        """Mean speedups over the number of levels, a line for each planner."""
        return plot_levels(self.array, list(self.levels))


def _networks(comparison: Comparison) -> str:
    names = comparison.networks
    return names[0] if len(names) == 1 else f"{len(names)} networks"


def compared(study: Study) -> ComparisonResult:
    """Compare on one array; what does not fit in memory is a warning.

    Interrupted by the keyboard it has the networks that are finished, if there are any
    (``comparison.complete``).
    """
    asked, names = study.conditions, named(study.planners)
    check_metrics(study.metrics, asked.array)
    total = len(study.networks) * len(names)
    with running(study.options, total) as (runner, progress, told):
        args = (asked.array, study.networks, study.planners, asked.batch, progress)
        result = compare(*args, **asked.options, metrics=study.metrics, runner=runner)
    for fault in result.overflows:
        tell(f"{fault} {REMEDY}")
    cases = {
        (network.name, name): asked.case(network, planner)
        for network in study.networks
        for name, planner in ({BASELINE: BASELINE} | names).items()
    }
    return ComparisonResult(result, cases, tuple(told))


def scaled(study: Study, levels: str | Iterable[int]) -> ScalingResult:
    """Compare on every size, as ``compared`` on one; without one that is finished it raises."""
    asked = study.conditions
    check_metrics(study.metrics, asked.array)
    wanted = parse_levels(levels if isinstance(levels, str) else ",".join(map(str, levels)))
    total = len(wanted) * len(study.networks) * len(study.planners)
    with running(study.options, total) as (runner, progress, told):
        args = (asked.array, wanted, study.networks, study.planners, asked.batch, progress)
        done, complete = sweep_levels(*args, **asked.options, metrics=study.metrics, runner=runner)
    for fault in (fault for level in done for fault in level.result.overflows):
        tell(f"{fault} {REMEDY}")
    return ScalingResult(asked.array.name, asked.batch, done, complete, tuple(told))


def parse_levels(text: str) -> list[int]:
    """``2,3,8-16`` to numbers, ascending; raises UsageError."""
    levels: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        bounds = (first, last if dash else first)
        if not all(b.isascii() and b.isdigit() and len(b) < 4 for b in bounds):
            raise UsageError(f"--levels {text!r}: expected numbers, as 2,3,4 or 2-16")
        levels.update(range(int(bounds[0]), int(bounds[1]) + 1))
    if not levels:
        raise UsageError(f"--levels {text!r}: an empty range")
    return sorted(levels)


def whole(result: AnySpeedups) -> AnySpeedups:
    """A result that nothing cut short, else KeyboardInterrupt: the store has what is finished."""
    if not result.complete:
        raise KeyboardInterrupt
    return result


def _rows(result: Comparison) -> list[dict[str, Any]]:
    return [aliased(row.values(result.metrics)) for row in result.rows]


def _other_means(result: Comparison) -> dict[str, dict[str, float | None]]:
    """The geometric means of what is shown beside time."""
    return {f"geomean_{one}": result.means(one) for one in result.metrics if one != "time"}


def _words(metric: str) -> str:
    """As a table's title begins."""
    return WORDS[metric].capitalize() + " in GB" * (metric == "traffic")


def metric_table(result: Comparison, metric: str) -> Table:
    """Energy (joules, and how many times less) or traffic (GB), network by network."""
    what, unit = _words(metric), "GB" if metric == "traffic" else "J"
    absolute = [p for p in result.planners if metric == "traffic" or p == BASELINE]
    heads = [f"{p} [{unit}]" if p in absolute else p for p in result.planners]
    table = table_of(f"{what}, {result.case}", ("network", *heads), ("network",))
    for network in result.networks:
        rows = [row for row in result.rows if row.network == network]
        cells = [
            f"{row.energy_j:.4g}"
            if metric == "energy" and row.planner == BASELINE and row.energy_j is not None
            else _cell(metric, row.metric(metric))
            for row in rows
        ]
        table.add_row(network, *cells)
    table.add_section()
    means = [
        "" if metric == "energy" and p == BASELINE else _cell(metric, mean)
        for p, mean in result.means(metric).items()
    ]
    table.add_row(MEAN, *means)
    return table


def _cell(metric: str, value: float | None) -> str:
    """Gigabytes, or a ratio; a dash where there is none."""
    if value is None:
        return "-"
    return f"{value / 1e9:.4g}" if metric == "traffic" else f"{value:.3f}"


MEAN = "geometric mean"
FEW = 5
"""Planners beside which a terminal has room for what they do on the fastest devices alone."""


def _times(result: Comparison) -> list[Table]:
    """One table, or several where there are many planners."""
    alone = [
        p for p in result.planners if all(r.fast_alone_speedup is not None for r in result.of(p))
    ]
    if alone and len(result.planners) <= FEW:
        return [_table(result, result.planners, alone)]
    tables = [_table(result, some, []) for some in _in_width(result)]
    return tables + [_table(result, [], alone)] * bool(alone)


def _in_width(result: Comparison) -> Iterator[list[str]]:
    """The planners that have room beside each other, in their order."""
    names = min(READABLE, max(map(len, [*result.networks, MEAN])))
    room = width() - names - len("┃  ┃")
    some, used = list[str](), 0
    for planner in result.planners:
        needs = len(_head(planner)) + 3
        if some and used + needs > room:
            yield some
            some, used = [], 0
        some, used = [*some, planner], used + needs
    yield some


def _head(planner: str) -> str:
    return f"{planner} [s]" if planner == BASELINE else planner


def _table(result: Comparison, planners: list[str], alone: list[str]) -> Table:
    """Speedups of ``planners``, and of those ``alone`` on the fastest devices."""
    heads = [*map(_head, planners)]
    heads += [f"{p}: {what}" for p in alone for what in ("slow share", "fast alone")]
    title = f"{_words('time')}, {result.case}"
    table = table_of(title, ("network", *heads), ("network",))
    for network in result.networks:
        rows = {row.planner: row for row in result.rows if row.network == network}
        cells = [
            (f"{rows[p].iteration_s:.6f}" if p == BASELINE else f"{rows[p].speedup:.3f}")
            + result.mark(p, network)
            for p in planners
        ]
        for planner in alone:
            cells += [f"{rows[planner].slow_share:.2%}", f"{rows[planner].fast_alone_speedup:.3f}"]
        table.add_row(network, *cells)
    table.add_section()
    means = [
        "" if p == BASELINE else f"{result.geomean[p]:.3f}{result.mark(p, *result.networks)}"
        for p in planners
    ]
    for planner in alone:
        means += [
            "",
            f"{geometric_mean([r.fast_alone_speedup or 0 for r in result.of(planner)]):.3f}",
        ]
    table.add_row("geometric mean", *means)
    if result.published and planners:
        ours, paper = result.geomean, result.published
        values = [f"{paper[p].speedup:.2f}" if p in paper else "" for p in planners]
        table.add_row("the paper's", *values)
        table.add_row(
            "difference",
            *[f"{ours[p] / paper[p].speedup - 1:+z.1%}" if p in paper else "" for p in planners],
        )
    return table
