"""Tables of steps in CSV files, whoever wrote them: bounded, and checked strictly."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

from experiments.output import UsageError

MOST_ROWS = 1000
_LARGEST_FILE = 1 << 20

Cells = dict[str, str]
"""One row, by column."""


def shipped_text(name: str) -> str:
    """A table that comes with accelarray."""
    return (resources.files("experiments") / "published" / name).read_text()


def text_of(path: str) -> str:
    """A file's text; raises UsageError."""
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
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(f"{path}: not a text file (UTF-8)") from None


def has_columns(text: str, name: str, columns: Sequence[str]) -> bool:
    """Whether these are a table's columns, in any order."""
    return sorted(next(_lines(text, name), (1, []))[1]) == sorted(columns)


def rows_of(text: str, name: str, columns: Sequence[str]) -> list[tuple[str, Cells]]:
    """Every row, with file and line; lines that start with # and empty ones do not count.

    Raises UsageError with file and line.
    """
    lines = _lines(text, name)
    number, header = next(lines, (1, []))
    if sorted(header) != sorted(columns):
        raise UsageError(f"{name}:{number}: the columns must be {','.join(columns)}")
    rows = []
    for n, cells in lines:
        if len(cells) != len(columns):
            raise UsageError(f"{name}:{n}: {len(cells)} values; {len(columns)} columns")
        rows.append((f"{name}:{n}", dict(zip(header, cells, strict=True))))
    if not rows:
        raise UsageError(f"{name}: no rows")
    if len(rows) > MOST_ROWS:
        raise UsageError(f"{name}: {len(rows)} rows; at most {MOST_ROWS}")
    return rows


def _lines(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                (cells,) = csv.reader([line], strict=True)
            except (csv.Error, ValueError) as error:
                raise UsageError(f"{name}:{number}: not a line of CSV: {error}") from None
            yield number, [cell.strip() for cell in cells]


def whole(cell: Cells, key: str, where: str, most: int) -> int:
    """A whole number of 1 to ``most``; raises UsageError."""
    if not re.fullmatch(r"\d{1,15}", cell[key], re.ASCII):
        raise UsageError(f"{where}: {key}: {cell[key][:40]!r} is not a whole number")
    if not 1 <= int(cell[key]) <= most:
        raise UsageError(f"{where}: {key}: {cell[key]} is outside 1...{most}")
    return int(cell[key])


def positive(cell: Cells, key: str, where: str) -> float:
    """A positive number; raises UsageError."""
    if not re.fullmatch(r"\d{1,15}(\.\d{1,15})?([eE][+-]?\d{1,2})?", cell[key], re.ASCII):
        raise UsageError(f"{where}: {key}: {cell[key][:40]!r} is not a positive number")
    if not 1e-6 <= float(cell[key]) <= 1e15:
        raise UsageError(f"{where}: {key}: {cell[key]} is outside 1e-6...1e15")
    return float(cell[key])
