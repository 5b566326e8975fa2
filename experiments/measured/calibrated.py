"""A stack of one's own: the constants of a few measured rows, as a TOML that --stack takes."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from experiments.measured.case import RowCase
from experiments.measured.errors import Spread
from experiments.measured.fit import Probed, common_share, format_of, grouped
from experiments.measured.stacks import stack_of
from experiments.measured.study import Progress, probe, ready
from experiments.output import UsageError
from experiments.studies.running.runner import Runner

ENOUGH = 3


@dataclass(frozen=True, slots=True)
class Fitted:
    """A chip's share of its peak in a format, its rows' errors with it, and without themselves.

    ``held_out`` are errors of each row with the share that the other rows have (none for one row).
    """

    chip: str
    device: str
    format: str
    share: float
    rows: tuple[Probed, ...]
    errors: tuple[float, ...]
    held_out: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Calibration:
    """The stack whose habits the rows have, and the constants of their chips."""

    extends: str
    fitted: tuple[Fitted, ...]

    @property
    def rows(self) -> int:
        """How many rows told the constants."""
        return sum(len(one.rows) for one in self.fitted)


def calibrated(rows: Sequence[Any], runner: Runner, progress: Progress) -> Calibration:
    """Fit one share for each chip and format; raises UsageError where rows are of no use."""
    cases = {row.id: one for row in rows if isinstance(one := ready(row), RowCase) and row.step_s}
    if not cases:
        raise UsageError(
            "no row can be simulated: " + "; ".join(str(ready(row)) for row in rows[:3])
        )
    stacks = sorted({stack_of(one.row)[0] for one in cases.values()})
    if len(stacks) > 1:
        raise UsageError(
            f"rows of several stacks ({', '.join(stacks)}, by their framework); calibrate one at a "
            "time, each from a file of its own"
        )
    probed = probe(rows, runner, progress)
    found = grouped(probed, lambda row: (row.hw, format_of(row)))
    return Calibration(
        stacks[0],
        tuple(
            _fitted(chip, format_, own, cases[own[0].row.id])
            for (chip, format_), own in found.items()
        ),
    )


def _fitted(chip: str, format_: str, rows: list[Probed], case: RowCase) -> Fitted:
    share = common_share(rows)
    others = [rows[:k] + rows[k + 1 :] for k in range(len(rows))]
    return Fitted(
        chip,
        case.case.array.group.kinds[0][0].name.partition(",")[0],
        format_,
        share,
        tuple(rows),
        tuple(row.error(share) for row in rows),
        tuple(
            row.error(common_share(rest)) for row, rest in zip(rows, others, strict=True) if rest
        ),
    )


def toml_of(calibration: Calibration, file: str) -> str:
    """The stack's spec; every constant says how many rows it is fitted on, and how well."""
    about = f"{calibration.extends}, calibrated on {calibration.rows} rows"
    lines = [
        'kind = "stack"',
        f"extends = {json.dumps(calibration.extends)}",
        f"description = {json.dumps(about)}",
    ]
    sources = []
    devices = dict.fromkeys(one.device for one in calibration.fitted)
    for device in devices:
        lines += ["", f"[chips.{device}]"]
        for one in (one for one in calibration.fitted if one.device == device):
            lines.append(f"{one.format} = {one.share:.6g}")
            spread = Spread.of(one.errors)
            said = (
                f"accelarray calibrate: fitted on {len(one.rows)} rows of {file}, "
                f"median error {spread.median:.1%}"
            )
            sources.append(f'"chips.{device}.{one.format}" = {json.dumps(said)}')
    return "\n".join([*lines, "", "[sources]", *sources]) + "\n"


def to_json(calibration: Calibration) -> dict[str, Any]:
    """What ``--format json`` prints."""
    return {
        "extends": calibration.extends,
        "constants": {f"{one.chip} {one.format}": one.share for one in calibration.fitted},
        "rows": [
            {
                "id": probed.row.id,
                "measured_s": probed.row.step_s,
                "predicted_s": probed.step_s(one.share),
                "error": error,
                "held_out_error": one.held_out[k] if one.held_out else None,
            }
            for one in calibration.fitted
            for k, (probed, error) in enumerate(zip(one.rows, one.errors, strict=True))
        ],
    }


def said(calibration: Calibration) -> list[str]:
    """How well it fits, and whether that is much to go by."""
    errors = [error for one in calibration.fitted for error in one.errors]
    held_out = [error for one in calibration.fitted for error in one.held_out]
    lines = [f"Median error of the rows {Spread.of(errors).median:.1%}."]
    if held_out:
        median = statistics.median(map(abs, held_out))
        lines.append(f"Of each row with the constant of the others: {median:.1%}.")
    few = [one for one in calibration.fitted if len(one.rows) < ENOUGH]
    if few:
        named = ", ".join(f"{one.chip} {one.format} ({len(one.rows)})" for one in few)
        lines.append(f"Few rows ({named}): {ENOUGH} say more than their own errors.")
    if any(math.isclose(one.share, 1.0, rel_tol=1e-3) for one in calibration.fitted):
        lines.append("A share ended at its bound of 1: these rows are faster than their peak.")
    return lines
