"""A stack of one's own: the constants of a few measured rows, as a TOML that --stack takes."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from experiments.measured.case import RowCase, ready, run_rows
from experiments.measured.fit import LEAST, Probed, chip_of, common_share
from experiments.measured.machine import stack_of
from experiments.measured.rows import Row
from experiments.measured.section import Column, Record, grouped, median_error, relative
from experiments.measured.study import Progress, at_share, probe
from experiments.notices import tell
from experiments.output import UsageError, spec_toml
from experiments.studies.running.runner import Runner

ENOUGH, NOT_KNOWN = 3, "is not known"
MOST_ROUNDS = 6
"""How often rows are simulated at the share that was found."""
COLUMNS = (
    Column("row", "id"),
    Column("measured [s]", "measured_s", "{:.4g}"),
    Column("fitted [s]", "predicted_s", "{:.4g}"),
    Column("error", "error", "{:+z.1%}"),
    Column("held out", "held_out_error", "{:+z.1%}"),
)


@dataclass(frozen=True, slots=True)
class Fitted:
    """A chip's share of its peak in a format, and its rows, as JSON has them.

    Held-out errors are of each row with the share that the other rows have (None for one row).
    """

    chip: str
    device: str
    format: str
    share: float
    rows: tuple[Record, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """The stack whose habits the rows have, and the constants of their chips."""

    extends: str
    fitted: tuple[Fitted, ...]

    @property
    def rows(self) -> list[Record]:
        """The rows that told the constants."""
        return [row for one in self.fitted for row in one.rows]

    def to_json(self) -> Record:
        """What ``--format json`` prints."""
        constants = {f"{one.chip} {one.format}": one.share for one in self.fitted}
        return {"extends": self.extends, "constants": constants, "rows": self.rows}


def calibrated(rows: Sequence[Row], runner: Runner, progress: Progress) -> Calibration:
    """Fit one share for each chip and format; raises UsageError where rows are of no use."""
    cases, left_out = dict[str, RowCase](), dict[str, str]()
    for row in rows:
        one = ready(row)
        if isinstance(one, RowCase) and row.step_s:
            cases[row.id] = one
        else:
            left_out[row.id] = "step_s is missing" if isinstance(one, RowCase) else str(one)
    if not cases:
        raise UsageError("no row can be simulated: " + "; ".join([*left_out.values()][:3]))
    _tell(" is left out", left_out.items())
    guessed = ((name, what) for name, one in cases.items() for what in one.split.assumed)
    _tell("", (one for one in guessed if NOT_KNOWN in one[1]))
    if mixed := [name for name, one in cases.items() if len(one.case.array.group.kinds) > 1]:
        raise UsageError(
            f"rows on several kinds of chips tell no chip's share: {', '.join(mixed[:3])}; leave "
            "them out"
        )
    stacks = sorted({stack_of(one.row)[0] for one in cases.values()})
    if len(stacks) > 1:
        raise UsageError(
            f"rows of several stacks ({', '.join(stacks)}, by their framework); calibrate one at a "
            "time, each from a file of its own"
        )
    found, seconds = _shares(cases, probe(rows, runner, progress), runner, progress)
    made = (_fitted(own, share, cases[own[0].row.id], seconds) for own, share in found)
    return Calibration(stacks[0], tuple(made))


def _shares(
    cases: Mapping[str, RowCase], probed: list[Probed], runner: Runner, progress: Progress
) -> tuple[list[tuple[list[Probed], float]], dict[str, float]]:
    """The share of each chip and format with its rows, and all rows' seconds at these shares.

    A step's line through two shares bends where exchanges begin to hide behind products. So all
    are simulated at the share that is found, and the lines go through that, until they meet it.
    """
    for number in range(MOST_ROUNDS):
        found = [(own, common_share(own)) for own in grouped(probed, chip_of).values()]
        shares = {one.row.id: share for own, share in found for one in own}
        asked = {name: at_share(cases[name], share) for name, share in shares.items()}
        seconds = dict[str, float]()
        for name, _, outputs in run_rows(asked, runner):
            seconds[name] = outputs["iteration_s"]
            if not number:
                progress(name)
        nearer = [one.through(shares[one.row.id], seconds[one.row.id]) for one in probed]
        if nearer == probed:
            break
        probed = nearer
    return found, seconds


def _tell(what: str, rows: Iterable[tuple[str, str]]) -> None:
    """Warn of rows, by the reason that each has: once for all that have the same."""
    for why, some in grouped(rows, lambda one: one[1]).items():
        more = f" (and {len(some) - 1} more)" if len(some) > 1 else ""
        tell(f"Row {some[0][0]}{more}{what}: {why}")


def _fitted(
    probed: list[Probed], share: float, case: RowCase, seconds: Mapping[str, float]
) -> Fitted:
    """What ``probed`` rows say; ``seconds`` are theirs at the ``share``, simulated."""
    others = [probed[:k] + probed[k + 1 :] for k in range(len(probed))]
    rows = [
        {
            "id": one.row.id,
            "measured_s": one.row.step_s,
            "predicted_s": seconds[one.row.id],
            "error": relative(seconds[one.row.id], one.row.step_s or math.nan),
            "held_out_error": one.error(common_share(rest)) if rest else None,
        }
        for one, rest in zip(probed, others, strict=True)
    ]
    device = case.case.array.group.kinds[0][0].name.partition(",")[0]
    chip, format_ = chip_of(probed[0])
    return Fitted(chip, device, format_, share, tuple(rows))


def toml_of(calibration: Calibration, file: str) -> str:
    """The stack's spec; every constant says how many rows it is fitted on, and how well."""
    about = f"{calibration.extends}, calibrated on {len(calibration.rows)} rows"
    chips, sources = dict[str, dict[str, float]](), dict[str, str]()
    for one in calibration.fitted:
        chips.setdefault(one.device, {})[one.format] = float(f"{one.share:.6g}")
        sources[f"chips.{one.device}.{one.format}"] = (
            f"accelarray papers calibrate: fitted on {len(one.rows)} rows of {file}, "
            f"median error {median_error(one.rows):.1%}"
        )
    spec = {"kind": "stack", "extends": calibration.extends, "description": about, "chips": chips}
    return spec_toml(spec, sources)


def said(calibration: Calibration) -> list[str]:
    """How well it fits, and whether that is much to go by."""
    known = [row["held_out_error"] for row in calibration.rows]
    held_out = [abs(error) for error in known if error is not None]
    lines = [f"Median error of the rows {median_error(calibration.rows):.1%}."]
    if held_out:
        median = statistics.median(held_out)
        lines.append(f"Of each row with the constant of the others: {median:.1%}.")
    few = [one for one in calibration.fitted if len(one.rows) < ENOUGH]
    if few:
        named = ", ".join(f"{one.chip} {one.format} ({len(one.rows)})" for one in few)
        lines.append(f"Few rows ({named}): {ENOUGH} say more than their own errors.")
    if any(math.isclose(one.share, 1.0, rel_tol=1e-3) for one in calibration.fitted):
        lines.append("A share ended at its bound of 1: these rows are faster than their peak.")
    if any(math.isclose(one.share, LEAST, rel_tol=1e-2) for one in calibration.fitted):
        lines.append(f"A share ended at its bound of {LEAST}: are the times of steps in seconds?")
    return lines
