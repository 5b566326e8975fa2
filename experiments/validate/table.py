"""Tables of measured training steps: one file format, checked strictly."""

from __future__ import annotations

import difflib
from dataclasses import dataclass

from experiments.output import UsageError
from experiments.validate.rows import Cells, positive, rows_of, shipped_text, whole

COLUMNS = (
    "round",
    "system",
    "cores",
    "global_batch",
    "batch_per_core",
    "images_per_s",
    "step_ms",
    "use",
)
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


def shipped() -> tuple[Measured, ...]:
    """The table that comes with accelarray, from MLPerf Training's public logs."""
    return parse(shipped_text(SHIPPED), SHIPPED)


def parse(text: str, name: str) -> tuple[Measured, ...]:
    """The rows of a table; raises UsageError with file and line."""
    return tuple(_row(cell, where) for where, cell in rows_of(text, name, COLUMNS))


def _row(cell: Cells, where: str) -> Measured:
    cores = whole(cell, "cores", where, MOST_CORES)
    batch = whole(cell, "batch_per_core", where, _MOST_ROWS_PER_CORE)
    every = whole(cell, "global_batch", where, MOST_CORES * _MOST_ROWS_PER_CORE)
    rate = positive(cell, "images_per_s", where)
    step_ms = positive(cell, "step_ms", where)
    if cores % _CORES_PER_BOARD:
        raise UsageError(f"{where}: cores: {cores}: a board has {_CORES_PER_BOARD}")
    if every != cores * batch:
        raise UsageError(f"{where}: global_batch: {every}, but {cores} x {batch} = {cores * batch}")
    if abs(step_ms * rate / (every * 1e3) - 1) > _ROUNDING:
        raise UsageError(
            f"{where}: step_ms: {step_ms:g}, but {every} samples at {rate:g} a second take "
            f"{every / rate * 1e3:.4g} ms"
        )
    device = _device(cell["system"], cores, where)
    return Measured(
        cell["round"], cell["system"], device, cores, batch, step_ms / 1e3, _use(cell["use"], where)
    )


def _device(system: str, cores: int, where: str) -> str:
    """The device of ``tpu-v3-32``, whose last number is that of its cores."""
    device, _, count = system.rpartition("-")
    if device not in SYSTEMS:
        known = " or ".join(f"{name}-CORES" for name in SYSTEMS)
        raise UsageError(f"{where}: system: {system[:40]!r} is not known; {known}")
    if count != str(cores):
        raise UsageError(f"{where}: system: {system[:40]!r} does not have {cores} cores")
    return device


def _use(use: str, where: str) -> str:
    """Any word that is not "calibration" means a check; what looks misspelt is refused."""
    if not 0 < len(use) <= 40:
        raise UsageError(f"{where}: use: {use[:40]!r}: must be calibration, check or another word")
    if use != CALIBRATION and difflib.get_close_matches(use.lower(), [CALIBRATION], cutoff=0.8):
        raise UsageError(f"{where}: use: {use!r}: did you mean {CALIBRATION}?")
    return use
