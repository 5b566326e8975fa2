"""``accelarray.validate``: predictions beside measurements; ``calibrate``: a stack of one's own."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, Unpack

from rich.table import Table

from experiments.api.argument_types import Changes, RunOptions, explicit
from experiments.api.inputs import assignments
from experiments.api.requests import running
from experiments.files.measurements import is_nccl, log_text, nccl
from experiments.link_calibration import WiresResult, calibrated_wires
from experiments.measured import collectives, large_models, pods, steps
from experiments.measured.calibrated import COLUMNS, Calibration, calibrated, said, toml_of
from experiments.measured.collectives import LatencyRow
from experiments.measured.pods import PodRow
from experiments.measured.rows import load, shipped
from experiments.measured.section import Section, lines
from experiments.measured.steps import RingRow
from experiments.measured.study import predicted
from experiments.output import UsageError, deliver, fitted, hearing
from experiments.results.result import Result
from hardware import load_device
from hardware.reader import checked_rows, parse_csv, read_text
from workloads import load_network

if TYPE_CHECKING:
    from matplotlib.figure import Figure

NETWORK = "resnet50"
RUN = ("store", "jobs", "cluster", "max_memory")
MOST_ROWS = 4000
"""That a table of one's own may have."""
LEAST = ("of it all-reduce", "round", "peak only", "specs alone", "use", "by", "stack")
"""Columns of measured steps that a narrow terminal goes without, the first ones first."""
LEAST_OF_ROWS = ("share, recompute counted", "bias", "90 %")
"""The same of steps of large models."""


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class ValidationResult(Result):
    """Predictions beside measured values, section by section, with their errors."""

    sections: tuple[Section, ...]
    draw: Callable[[], Figure]
    least: tuple[str, ...] = LEAST
    """Columns that a narrow terminal goes without."""

    def title(self) -> str:
        """The first section's title."""
        return self.sections[0].title

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray papers validate --format json`` prints."""
        return {key: value for section in self.sections for key, value in section.data.items()}

    def rows(self) -> list[dict[str, Any]]:
        """A row for each measured step."""
        found: list[dict[str, Any]] = self.to_dict()["rows"]
        return found

    def tables(self) -> list[Table | str]:
        """A table and messages for each section."""
        found: list[Table | str] = []
        for section in self.sections:
            rows = section.rows
            table = fitted(section.title, rows, self.least) if rows else []
            found += [*table, *section.messages, ""]
        return found[:-1]

    def plot(self) -> Figure:
        """Predicted against measured steps."""
        return self.draw()


@explicit(set='changes of every device: {"roofline.pad_matrix_unit": 128}')
def validate(
    table: str | PathLike[str] | None = None,
    *,
    rows: str | PathLike[str] | None = None,
    calibration: str | PathLike[str] | None = None,
    per_source: int = 0,
    rank: bool = False,
    estimate: bool = False,
    set: Changes = (),  # noqa: A002
    **options: Unpack[RunOptions],
) -> ValidationResult:
    """Predict measured steps, and compare with formulas and another simulator.

    Raises UsageError or SpecError.
    """
    changes = assignments(set)
    for change in changes:
        if change.partition("=")[0].strip() == "roofline.memory_efficiency":
            raise UsageError(f"--set {change}: this is the constant that validate fits")
    if per_source < 0:
        raise UsageError(f"--per-source {per_source}: must be 0 or more")
    if rows is None:
        only: dict[str, object] = {"calibration": calibration, "per-source": per_source}
        only |= {"rank": rank, "estimate": estimate}
        only |= {name: options.get(name) for name in RUN}
        if given := [name.replace("_", "-") for name, value in only.items() if value]:
            raise UsageError(f"--{given[0]} is for measured rows: say --rows FILE, too")
        return _everything(table, changes, options)
    if table or changes:
        flag = "--table" if table else "--set"
        raise UsageError(f"{flag} is not for measured rows; leave it out, or --rows")
    measured = load(os.fspath(rows))
    fitted_on = shipped() if calibration is None else load(os.fspath(calibration))
    with running(options, len(measured) + 2 * len(fitted_on)) as (runner, progress, _):
        study = predicted(measured, fitted_on, runner, per_source, progress, estimate=estimate)
    ranked = large_models.ranking(study.outcomes) if rank else []
    first, *others = (*large_models.sections(study), *ranked)
    if both := {row.id for row in measured} & {row.id for row in fitted_on}:
        said = f"{len(both)} of the rows are among those of the calibration, too: they are fitted."
        first = replace(first, messages=(*first.messages, said))
    found = first, *others
    return ValidationResult(found, lambda: large_models.plot(study.outcomes), LEAST_OF_ROWS)


def _everything(
    table: str | PathLike[str] | None, changes: Sequence[str], options: RunOptions
) -> ValidationResult:
    """All comparisons but those of large models."""
    measured, rings, latencies = tables_of(None if table is None else os.fspath(table))
    devices = {name: replace(load_device(name, changes)[0], name=name) for name in pods.SYSTEMS}
    with hearing(options.get("progress"), None) as progress:
        model = pods.Model(load_network(NETWORK), devices, progress)
        found = pods.validate(measured, pods.shipped(), model)
        nccl = collectives.measured(collectives.shipped(), progress)
        sections = [
            pods.section(found, NETWORK),
            collectives.exact_section(list(collectives.closed_forms(progress))),
            collectives.independent_section(list(collectives.independent())),
            steps.ring_section(list(steps.ring_steps(rings, progress))),
            steps.gpu_section(list(steps.gpu_steps(steps.shipped_gpus(), progress))),
            collectives.measured_section(list(nccl)),
        ]
        if latencies:
            found_too = collectives.measured(collectives.latencies(latencies), progress)
            lacking = collectives.left_out(latencies)
            sections.append(collectives.latencies_section(list(found_too), lacking))

    def draw() -> Figure:
        pods.check_drawable(len(measured))
        return pods.plot(found)

    return ValidationResult(tuple(sections), draw)


def tables_of(path: str | None) -> tuple[Sequence[PodRow], Sequence[RingRow], Sequence[LatencyRow]]:
    """Measured steps and another simulator's, the shipped ones where ``path`` has none such.

    Latencies of collectives are those of ``path`` alone.
    """
    if path is None:
        return pods.shipped(), steps.shipped_rings(), ()
    rows = parse_csv(read_text(path, UsageError, "such a table"), path, UsageError, MOST_ROWS)
    if {"id", "hw", "step_s"} <= rows[0][1].keys():
        raise UsageError(f"--table {path}: these are measured steps of large models; take --rows")
    if rows[0][1].keys() == steps.RingRow.model_fields.keys():
        return pods.shipped(), checked_rows(steps.RingRow, rows, UsageError), ()
    if rows[0][1].keys() == collectives.LatencyRow.model_fields.keys():
        found = checked_rows(collectives.LatencyRow, rows, UsageError)
        return pods.shipped(), steps.shipped_rings(), found
    return checked_rows(PodRow, rows, UsageError), steps.shipped_rings(), ()


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class CalibrationResult(Result):
    """A software profile whose constants are fitted on measured steps."""

    calibration: Calibration
    measured: str
    """The file of the steps."""

    def title(self) -> str:
        """The profile that is extended, and on how many rows."""
        found = self.calibration
        return f"Stack {found.extends}, calibrated on {len(found.rows)} rows"

    def to_dict(self) -> dict[str, Any]:
        """What ``accelarray papers calibrate --format json`` prints."""
        return self.calibration.to_json()

    def rows(self) -> list[dict[str, Any]]:
        """A row for each measured step, with its errors."""
        return self.calibration.rows

    def tables(self) -> list[Table | str]:
        """The rows with their errors, and the constants."""
        found = self.calibration
        constants = found.to_json()["constants"].items()
        shares = ", ".join(f"{name} {share:.3f}" for name, share in constants)
        title = f"Stack {found.extends}, calibrated"
        table = fitted(title, lines(found.rows, COLUMNS), ("held out",))
        return [*table, f"Shares of peak that products reach: {shares}.", *said(found)]

    def save(self, path: str | PathLike[str]) -> None:
        """Write the profile (.toml), for ``stack=``."""
        target = os.fspath(path)
        if not target.endswith(".toml"):
            raise UsageError(f"--output {target}: a stack's file ends in .toml")
        deliver(toml_of(self.calibration, self.measured), target)


@explicit(
    measured="file of measured steps of one stack (.csv), or what nccl-tests or rccl-tests printed",
    array="of collectives: whose links they are of; default: by the name of the device",
)
def calibrate(
    measured: str | PathLike[str],
    *,
    array: str | PathLike[str] | None = None,
    **options: Unpack[RunOptions],
) -> CalibrationResult | WiresResult:
    """Fit a software profile's constants on a few measured steps of one's own, or links'.

    The latter on collectives that nccl-tests or rccl-tests measured (.txt, .log, .out).
    Raises UsageError.
    """
    name = os.fspath(measured)
    if is_nccl(text := log_text(name)):
        found = nccl(text, name)
        on = os.fspath(array) if array else collectives.array_of(found.device, name)
        with hearing(options.get("progress"), None) as hears:
            return calibrated_wires(found, on, hears)
    if array is not None:
        raise UsageError("--array is for what nccl-tests printed; rows name their own hw")
    rows = load(name)
    with running(options, 3 * len(rows)) as (runner, progress, _):
        return CalibrationResult(calibrated(rows, runner, progress), os.fspath(measured))
