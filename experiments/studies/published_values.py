"""The papers' published values that come with accelarray, and which of them fit a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import resources

from experiments.output import UsageError
from hardware import Array, SpecError, load_array
from hardware.reader import Row, parse_csv

_MOST_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Published:
    """A paper's geometric mean, and whether it is ``printed`` there or ``recalled``."""

    speedup: float
    certainty: str


def shipped_rows(file: str) -> list[Row]:
    """Return the rows of ``experiments/published/FILE``, whose lines in ``#`` say where from."""
    text = (resources.files("experiments") / "published" / file).read_text()
    return parse_csv(text, file, UsageError, _MOST_ROWS)


def published(name: str) -> list[dict[str, str]]:
    """Return the cells of ``experiments/published/NAME.csv``."""
    return [cells for _, cells in shipped_rows(f"{name}.csv")]


def averages(array: Array) -> dict[str, Published]:
    """The AccPar paper's averages for an array, if it is one of the paper's, unchanged."""
    rows = [row for row in published("accpar_speedups") if row["array"] == array.base]
    try:
        unchanged = bool(rows) and load_array(array.base).group == array.group
    except SpecError:
        unchanged = False
    return {
        row["planner"]: Published(float(row["speedup"]), row["certainty"])
        for row in rows
        if unchanged
    }
