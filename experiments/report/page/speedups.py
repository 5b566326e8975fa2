"""The speedup tables and bars, beside the paper's values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments.report.page.chart import bars
from experiments.report.page.markup import Markup, join, number, section, table, tag
from experiments.studies.speedups import BASELINE, Comparison, Row, geometric_mean, messages


def speedups(results: Sequence[Comparison]) -> Markup:
    """A part for each array."""
    return section("speedups", "Speedup over data parallelism", *map(_array, results))


def _array(result: Comparison) -> Markup:
    title = result.case
    alone = [p for p in result.planners if all(r.fast_alone_speedup for r in result.of(p))]
    head = ["network", *[f"{p} [s]" if p == BASELINE else p for p in result.planners]]
    for planner in alone:
        head += [f"{planner}: slow share", f"{planner}: fast alone"]
    rows = [[network, *_cells(result, network, alone)] for network in result.networks]
    return tag(
        "article",
        tag("h3", result.array),
        table(f"Speedups on {title}", head, rows, _foot(result, alone)),
        *(_metric(result, metric) for metric in result.metrics if metric != "time"),
        *(tag("p", said, class_="note") for said in [*messages(result), *result.unread]),
        _bars(result, title),
    )


def _metric(result: Comparison, metric: str) -> Markup:
    """Energy efficiency over data parallelism, or GB of a step."""
    words = {"energy": "Energy efficiency over data parallelism", "traffic": "GB of a step"}
    scale = 1e9 if metric == "traffic" else 1.0
    rows = [
        [
            network,
            *(
                number(_scaled(row.metric(metric), scale), ".3f")
                for row in result.rows
                if row.network == network
            ),
        ]
        for network in result.networks
    ]
    return table(f"{words[metric]}, {result.case}", ["network", *result.planners], rows)


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value / scale


def _cells(result: Comparison, network: str, alone: list[str]) -> Iterator[Markup]:
    rows = {row.planner: row for row in result.rows if row.network == network}
    for planner, row in rows.items():
        yield _baseline(row) if planner == BASELINE else _speedup(row)
    for planner in alone:
        yield number(rows[planner].slow_share, ".2%")
        yield number(rows[planner].fast_alone_speedup, ".3f")


def _baseline(row: Row) -> Markup:
    return number(row.iteration_s, ".6f")


def _speedup(row: Row) -> Markup:
    return number(row.speedup, ".3f", title=f"{row.iteration_s!r} s")


def _foot(result: Comparison, alone: list[str]) -> Iterator[list[object]]:
    ours, paper = result.geomean, result.published
    means: list[object] = ["" if p == BASELINE else number(ours[p], ".3f") for p in ours]
    for planner in alone:
        mean = geometric_mean([row.fast_alone_speedup or 0 for row in result.of(planner)])
        means += ["", number(mean, ".3f")]
    yield ["geometric mean", *means]
    if paper:
        rest = [""] * (2 * len(alone))
        values = [number(paper[p].speedup, ".2f") if p in paper else "" for p in ours]
        yield ["the paper's", *values, *rest]
        ratios = [
            number(ours[p] / paper[p].speedup - 1, "+.1%") if p in paper else "" for p in ours
        ]
        yield ["difference", *ratios, *rest]


def _bars(result: Comparison, title: str) -> Markup:
    heights = {
        planner: [row.speedup for row in result.of(planner)] + [result.geomean[planner]]
        for planner in result.planners
        if planner != BASELINE
    }
    if not heights:
        return join(())
    marks = {p: paper.speedup for p, paper in result.published.items() if p in heights}
    return bars(title, [*result.networks, "geo. mean"], heights, marks)
