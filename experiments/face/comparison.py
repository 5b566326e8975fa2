"""Planners' speedups over data parallelism, to look at: on one array, and on many sizes of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from experiments.face.asked import Study
from experiments.face.notices import tell
from experiments.face.result import Result
from experiments.face.step import REMEDY, StepResult, stepped
from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.comparison import Level, compare, named, sweep_levels
from experiments.studies.speedups import BASELINE, Comparison
from experiments.studies.step_numbers import check_metrics

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from rich.table import Table


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ComparisonResult(Result):
    """Networks under planners on one array; ``cases`` are what was simulated, by both names."""

    comparison: Comparison
    cases: dict[tuple[str, str], Case]

    @property
    def geomean(self) -> dict[str, float]:
        """Geometric mean of each planner's speedups."""
        return self.comparison.geomean

    @property
    def messages(self) -> list[str]:
        """What to know about it, in sentences."""
        from experiments.studies.speedups import messages

        return messages(self.comparison)

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

    def shown(self) -> list[Table | str]:
        """What ``accelarray speedup`` prints."""
        from experiments.commands.speedup_tables import tables

        return tables(self.comparison)

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray speedup --format json`` prints."""
        from experiments.commands.speedup_tables import to_dict

        networks = {case.network.name: case.network for case in self.cases.values()}.values()
        warnings = [f"{network.name}: {note}" for network in networks for note in network.notes]
        return to_dict(self.comparison) | {
            "warnings": [*warnings, *self.comparison.overflows, *self.comparison.unread]
        }

    def to_frame(self) -> pandas.DataFrame:
        """A row for each network and planner: seconds, speedup, and what else applies."""
        return self.comparison.to_frame()

    def plot(self) -> Figure:
        """Bars for each network and the geometric mean, with the paper's where they apply."""
        from experiments.pictures.plots import plot_speedups

        return plot_speedups(self.comparison)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ScalingResult(Result):
    """The same comparison on arrays of 2, 4, 8, … accelerators, in an array's proportions."""

    array: str
    batch: int
    levels: Sequence[Level]

    def title(self) -> str:
        """How many networks, on how many sizes."""
        first, last = self.levels[0], self.levels[-1]
        sizes = f"{first.accelerators:,}...{last.accelerators:,} accelerators"
        return f"{_networks(first.result)} on {self.array}, {sizes}"

    def shown(self) -> list[Table | str]:
        """What ``accelarray speedup --levels`` prints."""
        from experiments.commands.speedup_tables import levels_tables

        return levels_tables(self.array, self.batch, list(self.levels))

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray speedup --levels --format json`` prints."""
        from experiments.commands.speedup_tables import levels_to_dict

        return levels_to_dict(self.array, self.batch, list(self.levels))

    def to_frame(self) -> pandas.DataFrame:
        """A row for each size, network and planner."""
        from experiments.commands.speedup_tables import levels_to_frame

        return levels_to_frame(list(self.levels))

    def plot(self) -> Figure:
        """Mean speedups over the number of levels, a line for each planner."""
        from experiments.pictures.plots import plot_levels

        return plot_levels(self.array, list(self.levels))


def _networks(comparison: Comparison) -> str:
    names = comparison.networks
    return names[0] if len(names) == 1 else f"{len(names)} networks"


def compared(study: Study) -> ComparisonResult:
    """Compare on one array; what does not fit in memory is a warning.

    Raises KeyboardInterrupt where that cut it short: what was finished is in the store.
    """
    asked, names = study.conditions, named(study.planners)
    check_metrics(study.metrics, asked.array)
    with study.going(len(study.networks) * len(names)) as (runner, progress):
        args = (asked.array, study.networks, study.planners, asked.batch, progress)
        result = compare(*args, **asked.options, metrics=study.metrics, runner=runner)
    if not result.complete:
        raise KeyboardInterrupt
    for fault in result.overflows:
        tell(f"{fault} {REMEDY}")
    cases = {
        (network.name, name): asked.case(network, planner)
        for network in study.networks
        for name, planner in ({BASELINE: BASELINE} | names).items()
    }
    return ComparisonResult(result, cases)


def scaled(study: Study, levels: str | Iterable[int]) -> ScalingResult:
    """Compare on every size; raises as ``compared``."""
    from experiments.commands.speedup import parse_levels

    asked = study.conditions
    check_metrics(study.metrics, asked.array)
    wanted = parse_levels(levels if isinstance(levels, str) else ",".join(map(str, levels)))
    total = len(wanted) * len(study.networks) * len(study.planners)
    with study.going(total) as (runner, progress):
        args = (asked.array, wanted, study.networks, study.planners, asked.batch, progress)
        done = sweep_levels(*args, **asked.options, metrics=study.metrics, runner=runner)
    if len(done) < len(wanted):
        raise KeyboardInterrupt
    for fault in (fault for level in done for fault in level.result.overflows):
        tell(f"{fault} {REMEDY}")
    return ScalingResult(asked.array.name, asked.batch, done)
