"""A page about one or several training runs, in the report's own frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from experiments.report.charts import Chart, lines
from experiments.report.comparison import made_by, specs
from experiments.report.page import Number, Table, page
from experiments.studies.training.run import Trained
from experiments.studies.training.tables import SMALL, mean

POINTS = 30
"""Of a line."""


def training_page(found: Sequence[Trained], command: str = "") -> str:
    """One self-contained HTML page: a table, where time went, progress, loss, specs, versions."""
    asked = found[0].asked
    slow = ", ".join(asked.slowdowns) or "no slowdown"
    methods = ", ".join(one.asked.method for one in found)
    title = f"{methods} for {asked.network.name}, {asked.workers} workers on {asked.array.name}"
    best = max(found, key=lambda one: one.iterations_per_s)
    message = (
        f"With {slow}, {best.asked.method} does most iterations a second: "
        f"{best.iterations_per_s:.4g} of all workers together."
    )
    parts = {
        "training": {
            "tables": list(_tables(found)),
            "notes": list(_notes(found)),
            "charts": list(_charts(found)),
            "small": [SMALL] if asked.learn else [],
        },
        "specs": specs([asked.array]),
        "made": made_by(command),
    }
    return page(title, message, parts)


def _tables(found: Sequence[Trained]) -> Iterator[Table]:
    head = ["method", "iterations a second", "the slowest worker's", "time [s]"]
    head += ["staleness, mean", "largest gap", "loss", "source"]
    yield Table("Methods on the same draws", head, [_row(one) for one in found])
    causes = list(dict.fromkeys(cause for one in found for cause in one.waiting))
    rows = [
        [
            one.asked.method,
            Number(one.computing_s, ".4g"),
            *(Number(one.waiting.get(cause, 0.0), ".4g") for cause in causes),
        ]
        for one in found
    ]
    yield Table("Seconds of all workers together", ["method", "computing", *causes], rows)


def _notes(found: Sequence[Trained]) -> Iterator[str]:
    for one in found:
        yield from one.notes
        if one.hang:
            yield f"{one.asked.method}: {one.hang}"
        if one.asked.way.recalled:
            yield f"{one.asked.method}, as recalled: {one.asked.way.recalled}."


def _row(one: Trained) -> list[object]:
    return [
        one.asked.method,
        Number(one.iterations_per_s, ".5g"),
        Number(min(one.each_per_s), ".4g"),
        Number(one.time_s, ".6g"),
        Number(mean(one.run.staleness), ".3g"),
        max(one.run.gaps, default=0),
        Number(one.curve[-1][1] if one.curve else None, ".4g"),
        one.asked.way.source,
    ]


def _charts(found: Sequence[Trained]) -> Iterator[Chart]:
    progress = {one.asked.method: points for one in found if (points := _progress(one))}
    if progress:
        yield lines("Iterations of all workers", "simulated time [s]", "iterations", progress)
    loss = {one.asked.method: points for one in found if (points := _some(one.curve[1:]))}
    if loss:
        name = f"Loss of the mean model, {found[0].asked.learn}"
        yield lines(name, "simulated time [s]", "loss", loss)


def _progress(one: Trained) -> list[tuple[float, float]]:
    ends = np.sort(np.concatenate([np.asarray(ends) for ends in one.run.ends])) / 1e12
    return _some([(float(at_s), float(i)) for i, at_s in enumerate(ends, 1)])


def _some(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Evenly chosen ones that a logarithmic axis can have, one at a time."""
    last = {x: y for x, y in points if x > 0 and 0 < y < 1e90}
    kept = list(last.items())
    places = sorted({round(at) for at in np.linspace(0, len(kept) - 1, POINTS)} if kept else ())
    return [kept[place] for place in places]
