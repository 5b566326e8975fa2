"""Tables of measured training steps: one file format, checked strictly."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field, model_validator

from experiments.output import UsageError
from experiments.studies.published_values import shipped_rows
from hardware.reader import Cells, Row, checked_rows, number, whole

CALIBRATION = "calibration"
SHIPPED = "mlperf_resnet50_tpu.csv"
SYSTEMS = ("tpu-v2", "tpu-v3")
MOST_CORES = 1 << 17
_CORES_PER_BOARD = 8
_MOST_ROWS_PER_CORE = 1 << 16
_ROUNDING = 0.05
"""How far images a second and step time may be apart: both are rounded, or medians."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One measured step: data parallel on ``cores`` with ``batch_per_core`` rows each."""

    round: str
    system: str
    device: str
    cores: int
    batch_per_core: int
    step_s: float
    use: str

    @property
    def calibration(self) -> bool:
        """Whether constants may be fitted on it."""
        return self.use == CALIBRATION


class MeasuredCells(Cells):
    """The columns of a table of steps, in any order.

    Any ``use`` that is not "calibration" is a check; what looks misspelt is refused.
    """

    round: str
    system: str
    cores: Annotated[int, whole(1, MOST_CORES)]
    global_batch: Annotated[int, whole(1, MOST_CORES * _MOST_ROWS_PER_CORE)]
    batch_per_core: Annotated[int, whole(1, _MOST_ROWS_PER_CORE)]
    images_per_s: Annotated[float, number(1e-6, 1e15)]
    step_ms: Annotated[float, number(1e-6, 1e15)]
    use: Annotated[str, Field(min_length=1, max_length=40)]

    @model_validator(mode="after")
    def _go_together(self) -> MeasuredCells:
        samples, every = self.cores * self.batch_per_core, self.global_batch
        took_ms = every / self.images_per_s * 1e3
        device, _, count = self.system.rpartition("-")
        near = difflib.get_close_matches(self.use.lower(), [CALIBRATION], cutoff=0.8)
        if self.cores % _CORES_PER_BOARD:
            raise ValueError(f"cores: {self.cores}: a board has {_CORES_PER_BOARD}")
        if every != samples:
            raise ValueError(
                f"global_batch: {every}, but {self.cores} x {self.batch_per_core} = {samples}"
            )
        if abs(self.step_ms / took_ms - 1) > _ROUNDING:
            raise ValueError(
                f"step_ms: {self.step_ms:g}, but {every} samples at {self.images_per_s:g} a second "
                f"take {took_ms:.4g} ms"
            )
        if device not in SYSTEMS:
            known = " or ".join(f"{name}-CORES" for name in SYSTEMS)
            raise ValueError(f"system: {self.system[:40]!r} is not known; {known}")
        if count != str(self.cores):
            raise ValueError(f"system: {self.system[:40]!r} does not have {self.cores} cores")
        if self.use != CALIBRATION and near:
            raise ValueError(f"use: {self.use!r}: did you mean {CALIBRATION}?")
        return self


def shipped() -> tuple[Measured, ...]:
    """Return the table that comes with accelarray, from MLPerf Training's public logs."""
    return parse(shipped_rows(SHIPPED))


def parse(rows: Sequence[Row]) -> tuple[Measured, ...]:
    """Return the steps of a table's rows; raises UsageError with file and line."""
    return tuple(
        Measured(
            row.round,
            row.system,
            row.system.rpartition("-")[0],
            row.cores,
            row.batch_per_core,
            row.step_ms / 1e3,
            row.use,
        )
        for row in checked_rows(MeasuredCells, rows, UsageError)
    )
