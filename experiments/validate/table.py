"""Tables of measured training steps: one file format, checked strictly."""

from __future__ import annotations

import csv
import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from experiments.output import UsageError

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
MOST_ROWS = 1000
_LARGEST_FILE = 1 << 20
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
    text = (resources.files("experiments") / "published" / SHIPPED).read_text()
    return parse(text, SHIPPED)


def read(path: str) -> tuple[Measured, ...]:
    """A table from a file; raises UsageError with file and line."""
    try:
        with Path(path).open("rb") as file:
            raw = file.read(_LARGEST_FILE + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError:
        raise UsageError(f"{path!r}: not a path") from None
    if len(raw) > _LARGEST_FILE:
        raise UsageError(f"{path}: larger than {_LARGEST_FILE >> 20} MiB; not such a table")
    try:
        return parse(raw.decode("utf-8-sig"), path)
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not a text file (UTF-8)") from None


def parse(text: str, name: str) -> tuple[Measured, ...]:
    """The rows of a table; lines that start with # and empty ones do not count."""
    lines = _lines(text, name)
    number, header = next(lines, (1, []))
    if sorted(header) != sorted(COLUMNS):
        raise UsageError(f"{name}:{number}: the columns must be {','.join(COLUMNS)}")
    rows = [
        _row(dict(zip(header, cells, strict=False)), cells, f"{name}:{n}") for n, cells in lines
    ]
    if not rows:
        raise UsageError(f"{name}: no rows")
    if len(rows) > MOST_ROWS:
        raise UsageError(f"{name}: {len(rows)} rows; at most {MOST_ROWS}")
    return tuple(rows)


def _lines(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                (cells,) = csv.reader([line], strict=True)
            except (csv.Error, ValueError) as error:
                raise UsageError(f"{name}:{number}: not a line of CSV: {error}") from None
            yield number, [cell.strip() for cell in cells]


def _row(cell: dict[str, str], cells: Sequence[str], where: str) -> Measured:
    if len(cells) != len(COLUMNS):
        raise UsageError(f"{where}: {len(cells)} values; {len(COLUMNS)} columns")
    cores = _whole(cell, "cores", where, MOST_CORES)
    batch = _whole(cell, "batch_per_core", where, _MOST_ROWS_PER_CORE)
    every = _whole(cell, "global_batch", where, MOST_CORES * _MOST_ROWS_PER_CORE)
    rate = _positive(cell, "images_per_s", where)
    step_ms = _positive(cell, "step_ms", where)
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


def _whole(cell: dict[str, str], key: str, where: str, most: int) -> int:
    if not re.fullmatch(r"\d{1,15}", cell[key], re.ASCII):
        raise UsageError(f"{where}: {key}: {cell[key][:40]!r} is not a whole number")
    if not 1 <= int(cell[key]) <= most:
        raise UsageError(f"{where}: {key}: {cell[key]} is outside 1...{most}")
    return int(cell[key])


def _positive(cell: dict[str, str], key: str, where: str) -> float:
    if not re.fullmatch(r"\d{1,15}(\.\d{1,15})?([eE][+-]?\d{1,2})?", cell[key], re.ASCII):
        raise UsageError(f"{where}: {key}: {cell[key][:40]!r} is not a positive number")
    if not 1e-6 <= float(cell[key]) <= 1e15:
        raise UsageError(f"{where}: {key}: {cell[key]} is outside 1e-6...1e15")
    return float(cell[key])


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
