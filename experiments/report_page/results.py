"""What a store holds: its results as a table, and as points against what differs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from experiments.report_page.chart import lines
from experiments.report_page.markup import Markup, number, section, table, tag

Result = Mapping[str, Any]

MOST_ROWS = 1000
MOST_CHARTS = 24
INPUTS = ("network", "planner", "array", "accelerators", "batch", "objective", "execution")
SECONDS = "iteration_s"
SHARES = ("computing", "communicating", "waiting")
WHEN = ("finished", "version")
ORDER = "result"
"""What results that differ in nothing shown are drawn against: their place in the store."""


def results(rows: Sequence[Result]) -> Markup:
    """The newest results, and charts of those that can be compared."""
    shown = rows[-MOST_ROWS:]
    count = f"{len(rows):,} results" + (
        f"; the newest {MOST_ROWS:,} are shown" if len(rows) > len(shown) else ""
    )
    head = ["network", *INPUTS[1:], "iteration [s]", *SHARES, *WHEN]
    cells = [
        [
            *(result.get(key, "") for key in INPUTS),
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


def charts(rows: Sequence[Result]) -> Iterator[Markup]:
    """For results alike but for the batch, for the accelerators, or for neither, a chart each."""
    numbered = [
        {**row, ORDER: i}
        for i, row in enumerate(rows, 1)
        if _is_number(row.get(SECONDS)) and row[SECONDS] > 0
    ]
    for across in ("batch", "accelerators", ORDER):
        fixed = [key for key in INPUTS if key not in (across, "planner")]
        groups: dict[tuple[str, ...], list[Result]] = {}
        for row in numbered:
            groups.setdefault(tuple(str(row.get(key)) for key in fixed), []).append(row)
        for key, group in groups.items():
            if _varies(group, across):
                title = ", ".join(part for part in key if part != "None")
                yield lines(title, across, "seconds a step", _series(group, across))


def _varies(group: Sequence[Result], across: str) -> bool:
    """Whether a planner's results differ in ``across`` (a positive number) and in their times."""
    planners = {row.get("planner") for row in group}
    usable = all(_is_number(row.get(across)) and row[across] > 0 for row in group)
    return usable and any(
        len({row[across] for row in group if row.get("planner") == planner}) > 1
        and len({row[SECONDS] for row in group if row.get("planner") == planner}) > 1
        for planner in planners
    )


def _series(group: Sequence[Result], across: str) -> dict[str, list[tuple[float, float]]]:
    series: dict[str, list[tuple[float, float]]] = {}
    for row in group:
        series.setdefault(str(row.get("planner")), []).append((row[across], row[SECONDS]))
    return series
