"""The papers' published values that come with accelarray, and which of them fit a comparison."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from importlib import resources

from hardware import Array, SpecError, load_array


@dataclass(frozen=True, slots=True)
class Published:
    """A paper's geometric mean, and whether it is ``printed`` there or ``recalled``."""

    speedup: float
    certainty: str


def published(name: str) -> list[dict[str, str]]:
    """The rows of ``experiments/published/NAME.csv``, whose lines in ``#`` say where from."""
    text = (resources.files("experiments") / "published" / f"{name}.csv").read_text()
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


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
