"""A page about one or several training runs, in the report's own frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from experiments.report.page.about import made_by, specs
from experiments.report.page.chart import lines
from experiments.report.page.markup import Markup, number, section, table, tag
from experiments.report.study import page
from experiments.studies.training.run import Trained
from experiments.studies.training.tables import SMALL

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
        "training": section("training", "Many workers", *_tables(found), *_charts(found)),
        "specs": specs([asked.array]),
        "made": made_by(command),
    }
    return page(title, message, parts)


def _tables(found: Sequence[Trained]) -> Iterator[Markup]:
    head = ["method", "iterations a second", "the slowest worker's", "time [s]"]
    head += ["staleness, mean", "largest gap", "loss", "source"]
    yield table("Methods on the same draws", head, [_row(one) for one in found])
    causes = list(dict.fromkeys(cause for one in found for cause in one.waiting))
    rows = [
        [
            one.asked.method,
            number(one.computing_s, ".4g"),
            *(number(one.waiting.get(cause, 0.0), ".4g") for cause in causes),
        ]
        for one in found
    ]
    yield table("Seconds of all workers together", ["method", "computing", *causes], rows)
    for one in found:
        for said in [*one.notes, *([f"{one.asked.method}: {one.hang}"] if one.hang else [])]:
            yield tag("p", said, class_="note")
        if one.asked.way.recalled:
            words = f"{one.asked.method}, as recalled: {one.asked.way.recalled}."
            yield tag("p", words, class_="note")


def _row(one: Trained) -> list[object]:
    counts = one.run.staleness
    stale = sum(age * count for age, count in counts.items()) / max(sum(counts.values()), 1)
    return [
        one.asked.method,
        number(one.iterations_per_s, ".5g"),
        number(min(one.each_per_s), ".4g"),
        number(one.time_s, ".6g"),
        number(stale, ".3g"),
        max(one.run.gaps, default=0),
        number(one.curve[-1][1] if one.curve else None, ".4g"),
        one.asked.way.source,
    ]


def _charts(found: Sequence[Trained]) -> Iterator[Markup]:
    progress = {one.asked.method: _progress(one) for one in found if any(one.run.done)}
    charts = []
    if progress:
        name = "Iterations of all workers"
        charts.append(lines(name, "simulated time [s]", "iterations", progress))
    if found[0].learned:
        loss = {one.asked.method: _some(one.curve[1:]) for one in found if one.curve[1:]}
        name = f"Loss of the mean model, {found[0].asked.learn}"
        charts += [lines(name, "simulated time [s]", "loss", loss)] if loss else []
    yield tag("div", *charts, class_="charts")
    if found[0].learned:
        yield tag("p", SMALL, class_="note")


def _progress(one: Trained) -> list[tuple[float, float]]:
    ends = np.sort(np.concatenate([np.asarray(ends) for ends in one.run.ends])) / 1e12
    return _some([(float(at_s), float(i)) for i, at_s in enumerate(ends, 1)])


def _some(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Evenly chosen ones that a logarithmic axis can have, one at a time."""
    last = {x: y for x, y in points if x > 0 and 0 < y < 1e90}
    kept = list(last.items())
    places = sorted({round(at) for at in np.linspace(0, len(kept) - 1, POINTS)} if kept else ())
    return [kept[place] for place in places]
