"""Predicted beside measured steps: one constant fitted, everything else from specs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from experiments.validate.fit import LEAST, MOST, fit_efficiency, relative
from experiments.validate.section import Section
from experiments.validate.steps import Pod, PodStep
from experiments.validate.table import Measured
from hardware import Device

Devices = dict[str, Device]
"""By the name that the table's systems start with."""


@dataclass(frozen=True, slots=True)
class MeasuredRow:
    """One measured step and what the model says of it."""

    measured: Measured
    step: PodStep
    specs_alone_error: float
    peak_only_error: float

    @property
    def error(self) -> float:
        """Signed and relative: 0.1 is a prediction 10 % too slow."""
        return relative(self.step.total_s, self.measured.step_s)


@dataclass(frozen=True, slots=True)
class OneBoard:
    """The constant fitted on one board's rows alone, and what it then says of another's."""

    fitted_on: str
    memory_efficiency: float
    errors: dict[str, float]


@dataclass(frozen=True, slots=True)
class Ratio:
    """How much faster one board is than another at the same batch."""

    slower: str
    faster: str
    measured: float
    predicted: float
    peak_only: float


@dataclass(frozen=True, slots=True)
class Validation:
    """Constants fitted on ``fitted_on``, every row's errors, and what else the fit says."""

    memory_efficiency: float
    peak_only_efficiency: float
    fitted_on: tuple[Measured, ...]
    rows: tuple[MeasuredRow, ...]
    one_board: OneBoard | None
    ratio: Ratio | None

    @property
    def at_bound(self) -> bool:
        """Whether the fit ended where efficiencies end: then it is no fit."""
        return not LEAST * 1.001 < self.memory_efficiency < MOST * 0.999

    def errors(self, *, calibration: bool) -> list[float]:
        """Signed errors of the rows used for the fit, or of all others."""
        return [row.error for row in self.rows if row.measured.calibration == calibration]


class _Fits:
    def __init__(self, pod: Pod, devices: Devices) -> None:
        self.pod = pod
        self.devices = devices
        self._seen: dict[tuple[str, int, int, float], PodStep] = {}

    def step(self, row: Measured, memory_efficiency: float) -> PodStep:
        """The predicted step of a row."""
        key = (row.device, row.cores, row.batch_per_core, memory_efficiency)
        if key not in self._seen:
            device = self.devices[row.device]
            model = replace(device.roofline, memory_efficiency=memory_efficiency)
            self._seen[key] = self.pod.step(
                replace(device, roofline=model), row.cores, row.batch_per_core
            )
        return self._seen[key]

    def memory_efficiency(self, rows: Sequence[Measured]) -> float:
        """The one constant."""
        return fit_efficiency(
            lambda guess: [relative(self.step(row, guess).total_s, row.step_s) for row in rows]
        )

    def peak_s(self, row: Measured) -> float:
        """The negative control at full efficiency."""
        return self.pod.peak_only_s(self.devices[row.device], row.batch_per_core)

    def peak_efficiency(self, rows: Sequence[Measured]) -> float:
        """The negative control's one constant."""
        shortest = [(self.peak_s(row), row.step_s) for row in rows]
        return fit_efficiency(lambda guess: [relative(p / guess, m) for p, m in shortest])


def validate(
    rows: Sequence[Measured], shipped: Sequence[Measured], devices: Devices, pod: Pod
) -> Validation:
    """Fit on the rows marked calibration (the shipped ones where there are none); predict all."""
    fits = _Fits(pod, devices)
    own = [row for row in rows if row.calibration]
    calibration = own or [row for row in shipped if row.calibration]
    memory, peak = fits.memory_efficiency(calibration), fits.peak_efficiency(calibration)
    return Validation(
        memory_efficiency=memory,
        peak_only_efficiency=peak,
        fitted_on=tuple(calibration),
        rows=tuple(
            MeasuredRow(
                row,
                fits.step(row, memory),
                relative(fits.step(row, 1.0).total_s, row.step_s),
                relative(fits.peak_s(row) / peak, row.step_s),
            )
            for row in rows
        ),
        one_board=_one_board(fits, calibration),
        ratio=_ratio(fits, calibration, memory),
    )


def _one_board(fits: _Fits, calibration: Sequence[Measured]) -> OneBoard | None:
    first = min(row.device for row in calibration)
    own = [row for row in calibration if row.device == first]
    others = [row for row in calibration if row.device != first]
    if not others:
        return None
    alone = fits.memory_efficiency(own)
    errors = {row.system: relative(fits.step(row, alone).total_s, row.step_s) for row in others}
    return OneBoard(first, alone, errors)


def _ratio(fits: _Fits, calibration: Sequence[Measured], memory: float) -> Ratio | None:
    """Of the first two calibration rows that differ in their device alone."""
    for one in calibration:
        for other in calibration:
            alike = (one.cores, one.batch_per_core) == (other.cores, other.batch_per_core)
            if alike and one.device < other.device:
                return Ratio(
                    one.system,
                    other.system,
                    one.step_s / other.step_s,
                    fits.step(one, memory).total_s / fits.step(other, memory).total_s,
                    fits.peak_s(one) / fits.peak_s(other),
                )
    return None


def section(result: Validation, network: str) -> Section:
    """As the command prints it."""
    return Section(
        f"Measured steps of {network}, data parallel on a torus",
        [_shown(row) for row in result.rows],
        tuple(_messages(result)),
        _data(result),
    )


def _shown(row: MeasuredRow) -> dict[str, Any]:
    return {
        "round": row.measured.round,
        "system": row.measured.system,
        "cores": row.measured.cores,
        "batch a core": row.measured.batch_per_core,
        "use": row.measured.use,
        "measured [ms]": f"{row.measured.step_s * 1e3:.1f}",
        "predicted [ms]": f"{row.step.total_s * 1e3:.1f}",
        "of it all-reduce": f"{row.step.communication_s * 1e3:.2f}",
        "error": f"{row.error:+.1%}",
        "specs alone": f"{row.specs_alone_error:+.1%}",
        "peak only": f"{row.peak_only_error:+.1%}",
    }


def _messages(result: Validation) -> list[str]:
    on = ", ".join(dict.fromkeys(row.system for row in result.fitted_on))
    own = any(row.measured.calibration for row in result.rows)
    lines = [
        f"memory_efficiency {result.memory_efficiency:.4f}, the one fitted constant, "
        f"on {on}{'' if own else ' of the shipped table (this one has no calibration rows)'}."
    ]
    if result.at_bound:
        lines.append("It ended at a bound of 0.01...1: the model does not fit these rows.")
    if checks := result.errors(calibration=False):
        lines.append(
            f"Other rows: median {statistics.median(map(abs, checks)):.1%}, "
            f"at most {max(map(abs, checks)):.1%} off."
        )
    if result.one_board:
        wrong = ", ".join(f"{s} {e:+.1%}" for s, e in result.one_board.errors.items())
        lines.append(
            f"Fitted on {result.one_board.fitted_on} alone "
            f"({result.one_board.memory_efficiency:.4f}): {wrong}."
        )
    if result.ratio:
        lines.append(
            f"{result.ratio.faster} is {result.ratio.measured:.2f} times as fast as "
            f"{result.ratio.slower}; predicted {result.ratio.predicted:.2f}, "
            f"by peak FLOP/s {result.ratio.peak_only:.2f}."
        )
    lines.append(
        f"specs alone: memory_efficiency 1. peak only: FLOPs at {result.peak_only_efficiency:.3f} "
        "of peak and nothing else, a control that is to fail."
    )
    return lines


def _data(result: Validation) -> dict[str, Any]:
    data: dict[str, Any] = {
        "constants": {
            "memory_efficiency": result.memory_efficiency,
            "peak_only_efficiency": result.peak_only_efficiency,
        },
        "fitted_on": [row.system for row in result.fitted_on],
        "fit_at_bound": result.at_bound,
        "rows": [_row_data(row) for row in result.rows],
    }
    if checks := result.errors(calibration=False):
        data["other_rows"] = {
            "median_error": statistics.median(map(abs, checks)),
            "largest_error": max(map(abs, checks)),
        }
    if one := result.one_board:
        data["one_board"] = {
            "fitted_on": one.fitted_on,
            "memory_efficiency": one.memory_efficiency,
            "errors": one.errors,
        }
    if ratio := result.ratio:
        data["board_ratio"] = {
            "boards": [ratio.slower, ratio.faster],
            "measured": ratio.measured,
            "predicted": ratio.predicted,
            "peak_only": ratio.peak_only,
        }
    return data


def _row_data(row: MeasuredRow) -> dict[str, Any]:
    return {
        "round": row.measured.round,
        "system": row.measured.system,
        "cores": row.measured.cores,
        "batch_per_core": row.measured.batch_per_core,
        "measured_ms": row.measured.step_s * 1e3,
        "predicted_ms": row.step.total_s * 1e3,
        "error": row.error,
        "use": row.measured.use,
        "all_reduce_ms": row.step.communication_s * 1e3,
        "update_ms": row.step.update_s * 1e3,
        "specs_alone_error": row.specs_alone_error,
        "peak_only_error": row.peak_only_error,
    }
