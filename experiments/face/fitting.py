"""``accelarray.fit``: every combination of axes of parallelism that fits, the fastest first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from experiments.face.asked import BATCH, changed, running, transforms_of
from experiments.face.forms import explicit
from experiments.face.inputs import array_of, batch_of, execution_of, network_of
from experiments.output import UsageError
from experiments.pictures.plots import plot_fit
from experiments.progress import working
from experiments.results.error_band import ErrorBand, band_rows, banded, error_band
from experiments.results.result import Result
from experiments.studies.case import Case, plan_of
from experiments.studies.fitting import (
    VARIED,
    Fit,
    ranked,
    row_of,
    run_choice,
    varied_of,
    why_not,
)
from experiments.studies.step_numbers import least_of, readable
from experiments.terms import aliased, duration
from planners.errors import check_batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.table import Table

    from experiments.face.forms import ArrayLike, Changes, ExecutionLike, FitOptions, NetworkLike
    from experiments.studies.case import Case

SHOWN = 15
COLUMNS = ("dp", "tp", "cp", "pp", "vp", "ep", "micro_batch", "recompute", "update")


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class FitResult(Result):
    """Combinations of axes that fit in memory, the fastest first, and why others do not."""

    asked: Fit
    every: int
    """Legal combinations, those that were not simulated among them."""
    found: tuple[dict[str, Any], ...]
    best: Case | None = None
    """The fastest combination as a step; None where none fits."""

    @property
    def fits(self) -> list[dict[str, Any]]:
        """Combinations that fit, the fastest first."""
        return ranked(self.found)

    @property
    def others(self) -> list[dict[str, Any]]:
        """Combinations that do not fit, each with its reason."""
        return [row for row in self.found if row["reason"]]

    @property
    def error_band(self) -> ErrorBand | None:
        """How far measured steps like the fastest are off; None where none is known."""
        return error_band(self.best) if self.best else None

    def _banded(self) -> dict[str, Any] | None:
        return banded(self.best, self.fits[0]["iteration_s"]) if self.best else None

    @property
    def bound_s(self) -> float:
        """Of several kinds of devices, what no plan undercuts (seconds); else 0."""
        several = len(self.asked.array.group.kinds) > 1
        return least_of(self.best, 0.0)[0] if several and self.best else 0.0

    def title(self) -> str:
        """Network, array and batch."""
        asked = self.asked
        return f"{asked.network.name} on {asked.array.name}, batch {asked.batch}"

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray fit --format json`` prints."""
        asked = self.asked
        return {
            "network": asked.network.name,
            "array": asked.array.name,
            "batch": asked.batch,
            "execution": str(asked.execution),
            "varied": list(asked.varied),
            "combinations": self.every,
            "simulated": len(self.fits),
            "lower_bound_s": self.bound_s or None,
            "error_band": self._banded(),
            "fits": [aliased(row) for row in self.fits],
            "others": [aliased(row) for row in self.others],
        }

    def rows(self) -> list[dict[str, Any]]:
        """A row for each combination that was simulated: those that fit first."""
        return [aliased(row) for row in (*self.fits, *self.others)]

    def export(self, target: str) -> str:
        """The fastest as flags or a file: "megatron", "torchtitan", "maxtext" or "deepspeed"."""
        from experiments.files.export import exported

        if self.best is None:
            raise UsageError(f"{self.title()}: nothing fits that could be exported")
        return exported(self.best, plan_of(self.best), target)

    def plot(self) -> Figure:
        """Step time against memory of the combinations that fit."""
        return plot_fit(self.fits, self.title(), self.asked.capacity_bytes)

    def _counted(self) -> str:
        """How many combinations there are, and what became of them."""
        counts, left = why_not(self.found), self.every - len(self.found)
        became = {
            "simulated": len(self.fits),
            **counts,
            "left out (their weights alone do not fit, smaller micro-batches do not, or less "
            "recomputation fits)": left,
        }
        said = [f"{number:,} {words}" for words, number in became.items() if number]
        more = len(self.fits) - SHOWN
        rest = f" The table has the fastest {SHOWN}; --format json has all." if more > 0 else ""
        many = f"{self.every:,} combination{'s' * (self.every != 1)}"
        return f"{many}: {', '.join(said)}.{rest}"

    def tables(self) -> list[Table | str]:
        """The fastest, and how many there were in all."""
        from rich.table import Table

        best, bound_s = self.fits, self.bound_s
        said = [self._counted()]
        if not best:
            return [self.title(), *said]
        names = ("plan", *COLUMNS[-3:]) if bound_s else COLUMNS
        if bound_s:
            best = [row | {"plan": _flags(row)} for row in best]
            more = best[0]["iteration_s"] / bound_s - 1
            said.append(
                f"No plan takes less than {duration(bound_s)}: the step's work, spread over "
                f"all devices without loss. The fastest takes {more:.1%} more."
            )
        kept = [name for name in names if name == "plan" or len({row[name] for row in best}) > 1]
        table = Table(title=self.title())
        tokens = best[0]["tokens_per_s_each"] is not None
        rate = "tokens/s per device" if tokens else "samples/s"
        for name in (*kept, "step time", rate, "MFU", "GiB"):
            table.add_column(name.replace("_", " "), justify="left" if name == "plan" else "right")
        for row in best[:SHOWN]:
            cells = [
                f"{row[name]}" + ("+sp" if name == "tp" and row["sp"] else "") for name in kept
            ]
            table.add_row(
                *cells,
                duration(row["iteration_s"]),
                readable(row["tokens_per_s_each" if tokens else "samples_per_s"]),
                f"{row['share_of_peak']:.1%}",
                f"{row['peak_memory_bytes'] / 2**30:.1f}",
            )
        bands = band_rows(self._banded())
        band = [f"{name.capitalize()} of the fastest: {words}." for name, words in bands]
        return [table, *band, *said]


def _flags(row: dict[str, Any]) -> str:
    """A combination's axes, or its stages, as options."""
    if not row["stage_hw"]:
        names = ("dp", "tp", "cp", "pp", "vp", "ep")
        said = [f"{name}={row[name]}" for name in names if row[name] > 1] + ["sp"] * row["sp"]
        return f"--parallel {','.join(said) or 'dp=1'}"
    axes = " --parallel sp" * row["sp"]
    return f'--stage-hw "{row["stage_hw"]}" --stage-layers "{row["stage_layers"]}"{axes}'


@explicit()
def fit(
    network: NetworkLike,
    array: ArrayLike,
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    axes: str | Iterable[str] | None = None,
    set: Changes = (),  # noqa: A002
    **options: Unpack[FitOptions],
) -> FitResult:
    """Simulate every combination of axes of parallelism that fits in memory.

    Raises NetworkError, SpecError or UsageError.
    """
    place = array_of(array, changed(set, options))
    model = execution_of(execution, options, place)
    if model.model != "deployed":
        raise UsageError(
            "fit: the published model has no memory; take --execution deployed, or an array that "
            "is for it, as --array h100-cluster (see: list arrays)"
        )
    texts = axes if axes is None or isinstance(axes, str) else ",".join(axes)
    varied = VARIED if texts is None else varied_of(texts)
    size = BATCH if batch is None else batch_of(batch)
    check_batch(size)
    asked = Fit(network_of(network, transforms_of(options), place), place, size, model, varied)
    cases, expected, every = asked.cases(), asked.expected(), list(asked.choices())
    found = {}
    with running(options, len(expected)) as (runner, progress, _):
        for done in runner.run(cases, asked.after, run_choice, asked.passes, expected):
            found[done.name] = row_of(done.name, asked.case(done.name), done.outputs)
            label = f"{done.name.axes}, micro-batch {done.name.micro_batch}"
            if done.name in expected:
                progress(label)
            else:
                working(progress, label)
    rows = [found[choice] for choice in every if choice in found]  # whichever ended first
    fitting = [choice for choice in found if found[choice]["iteration_s"]]
    best = min(fitting, key=lambda choice: found[choice]["iteration_s"], default=None)
    return FitResult(asked, len(every), tuple(rows), asked.case(best) if best else None)
