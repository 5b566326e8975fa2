"""What a store holds: its results as a table, and as points against what differs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from experiments.report.page.chart import DRAWABLE, lines
from experiments.report.page.markup import Markup, number, section, table, tag
from experiments.studies.running.outputs import NAMES
from hardware import split_quantity

Result = Mapping[str, Any]

MOST_ROWS = 1000
MOST_CHARTS = 24
INPUTS = ("network", "planner", "array", "accelerators", "batch", "objective", "execution")
SECONDS = "iteration_s"
SHARES = ("computing", "communicating", "waiting")
WHEN = ("finished", "version")
WORDS = {"batch": "batch {}", "accelerators": "{} accelerators"}


def results(rows: Sequence[Result]) -> Markup:
    """The newest results, and charts of those that can be compared."""
    shown = rows[-MOST_ROWS:]
    count = f"{len(rows):,} results" + (
        f"; the newest {MOST_ROWS:,} are shown" if len(rows) > len(shown) else ""
    )
    varied = varied_keys(rows)
    head = ["network", *INPUTS[1:], *varied, "iteration [s]", *SHARES, *WHEN]
    cells = [
        [
            *(result.get(key, "") for key in (*INPUTS, *varied)),
            _number(result.get(SECONDS), ".9g"),
            *(_number(result.get(key), ".2%") for key in SHARES),
            *(result.get(key, "") for key in WHEN),
        ]
        for result in shown
    ]
    drawn = tag("div", *islice(charts(rows), MOST_CHARTS), class_="charts")
    about = tag("p", f"{count}.")
    return section(
        "results", "Results in the store", about, table("Results, oldest first", head, cells), drawn
    )


def _number(value: Any, spec: str) -> object:
    return number(value, spec) if _is_number(value) else ("" if value is None else value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_drawable(value: Any) -> bool:
    return _is_number(value) and DRAWABLE[0] <= value <= DRAWABLE[1]


def varied_keys(rows: Sequence[Result]) -> list[str]:
    """Keys of specs that sweeps have varied: those whose values differ among the results."""
    known = {*INPUTS, *NAMES, *WHEN, "key"}
    keys = dict.fromkeys(key for row in rows for key in row if key not in known)
    return [key for key in keys if len({str(row.get(key, "")) for row in rows}) > 1]


def charts(rows: Sequence[Result]) -> Iterator[Markup]:
    """For results alike but for the batch, the accelerators or a varied value, a chart each."""
    usable = [row for row in rows if _is_drawable(row.get(SECONDS))]
    planners = list(dict.fromkeys(str(row.get("planner")) for row in usable))
    keys = [*INPUTS, *varied_keys(rows)]
    for across in ("batch", "accelerators", *varied_keys(rows)):
        fixed = [key for key in keys if key not in (across, "planner")]
        groups: dict[tuple[str, ...], list[Result]] = {}
        for row in usable:
            groups.setdefault(tuple(str(row.get(key, "")) for key in fixed), []).append(row)
        for values, group in groups.items():
            series = {planner: _points(group, planner, across) for planner in planners}
            if any(_differ(points) for points in series.values()):
                yield lines(_title(fixed, values), across, "seconds a step", series)


def _title(fixed: Sequence[str], values: Sequence[str]) -> str:
    pairs = [(key, value) for key, value in zip(fixed, values, strict=True) if value]
    return ", ".join(WORDS.get(key, "{}").format(value) for key, value in pairs)


def _points(group: Sequence[Result], planner: str, across: str) -> list[tuple[float, float]]:
    """One planner's places on both axes; both are positive."""
    own = [row for row in group if str(row.get("planner")) == planner]
    places = ((_place(row.get(across)), float(row[SECONDS])) for row in own)
    return sorted((place, seconds) for place, seconds in places if place is not None)


def _place(value: Any) -> float | None:
    """A value as a place on an axis: a number, or a quantity in its unit; both positive."""
    if isinstance(value, str):
        quantity = split_quantity(value)
        try:
            value = quantity[1] if quantity else float(value)
        except ValueError:
            return None
    return float(value) if _is_drawable(value) else None


def _differ(points: Sequence[tuple[float, float]]) -> bool:
    return len({x for x, _ in points}) > 1 and len({y for _, y in points}) > 1
