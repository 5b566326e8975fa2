"""How far predictions are off: signed errors of rows, and what they come to by group."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from experiments.measured.rows import Row


@dataclass(frozen=True, slots=True)
class Outcome:
    """A row and what is said of it; seconds, GiB of a chip; None where nothing can be said.

    ``left_out`` is why it is in no statistic (None: it is in). ``assumed`` is what the row
    does not state and the prediction takes. ``controls`` are those of the same row, in seconds.
    """

    row: Row
    predicted_s: float | None
    memory_gib: float | None
    left_out: str | None
    assumed: tuple[str, ...] = ()
    controls: tuple[tuple[str, float], ...] = ()

    @property
    def error(self) -> float:
        """Signed and relative: 0.1 is a prediction 10 % too slow."""
        if self.predicted_s is None or self.row.step_s is None:
            raise ValueError(f"{self.row.id}: nothing to compare")
        return self.predicted_s / self.row.step_s - 1

    @property
    def memory_error(self) -> float | None:
        """The same of memory; None where it is not measured or not predicted."""
        if self.memory_gib is None or self.row.mem_gib is None:
            return None
        return self.memory_gib / self.row.mem_gib - 1


@dataclass(frozen=True, slots=True)
class Spread:
    """Errors of some rows: how many, median and 90th percentile of their sizes, median with sign.

    The percentile is interpolated, as NumPy's: of two errors, 0.9 of the way to the larger one.
    """

    rows: int
    median: float
    p90: float
    signed: float

    @classmethod
    def of(cls, errors: Sequence[float]) -> Spread:
        """Of at least one error."""
        sizes = sorted(map(abs, errors))
        return cls(
            len(sizes), statistics.median(sizes), quantile(sizes, 0.9), statistics.median(errors)
        )

    def to_json(self) -> dict[str, float]:
        """Plain values."""
        return {"rows": self.rows, "median": self.median, "p90": self.p90, "signed": self.signed}


def quantile(ascending: Sequence[float], share: float) -> float:
    """The value below which a share of them lies, interpolated."""
    place = share * (len(ascending) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (place - low) * (ascending[high] - ascending[low])


def counted(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """Those in the statistics."""
    return [outcome for outcome in outcomes if outcome.left_out is None]


def spreads(outcomes: Iterable[Outcome], group: Callable[[Row], str | None]) -> dict[str, Spread]:
    """The spread of each group's errors, in the order in which groups come up."""
    errors: dict[str, list[float]] = {}
    for outcome in counted(outcomes):
        name = group(outcome.row)
        if name is not None:
            errors.setdefault(name, []).append(outcome.error)
    return {name: Spread.of(found) for name, found in errors.items()}


def of_control(outcomes: Iterable[Outcome], name: str) -> list[float]:
    """A control's errors on the rows in the statistics."""
    return [
        seconds / (outcome.row.step_s or math.nan) - 1
        for outcome in counted(outcomes)
        for control, seconds in outcome.controls
        if control == name
    ]


def architecture(row: Row) -> str:
    """Dense models, and mixtures of experts, which are told apart in every table."""
    return "dense" if row.dense else "mixture of experts"


def to_json(outcome: Outcome) -> dict[str, Any]:
    """One row as scripts read it."""
    return {
        "id": outcome.row.id,
        "measured_s": outcome.row.step_s,
        "predicted_s": outcome.predicted_s,
        "memory_gib": outcome.memory_gib,
        "left_out": outcome.left_out,
        "measured_memory_gib": outcome.row.mem_gib,
        "source": outcome.row.source,
        "chip": outcome.row.hw,
        "architecture": architecture(outcome.row),
        "assumed": list(outcome.assumed),
        "controls": dict(outcome.controls),
    }
