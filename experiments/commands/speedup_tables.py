"""The tables, CSV and JSON of ``accelarray speedup``, of one array and of several sizes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    from rich.table import Table

    from experiments.studies.comparison import Level
    from experiments.studies.speedups import Comparison


def to_dict(result: Comparison) -> dict[str, Any]:
    """What ``--format json`` prints."""
    from experiments.studies.speedups import messages

    others = {metric: result.means(metric) for metric in result.metrics if metric != "time"}

    return {
        "array": result.array,
        "batch": result.batch,
        "execution": result.execution,
        "communication": result.communication,
        "complete": result.complete,
        "notes": messages(result),
        "rows": [row.values(result.metrics) for row in result.rows],
        "geomean": result.geomean,
        **{f"geomean_{metric}": means for metric, means in others.items()},
        "published": {name: value.speedup for name, value in result.published.items()},
        "published_certainty": {n: value.certainty for n, value in result.published.items()},
    }


def tables(result: Comparison) -> list[Table | str]:
    """The table people read, with what to know about it underneath."""
    from experiments.studies.speedups import messages

    found = [
        one
        for metric in result.metrics
        for one in (_times(result) if metric == "time" else [_other(result, metric)])
    ]
    return [*found, *messages(result), *result.unread]


def _other(result: Comparison, metric: str) -> Table:
    """Energy (joules, and how many times less) or traffic (GB), network by network."""
    from rich.table import Table

    from experiments.studies.speedups import BASELINE

    what, unit = _WORDS[metric]
    table = Table(title=f"{what}, {result.case}")
    table.add_column("network")
    for planner in result.planners:
        absolute = metric == "traffic" or planner == BASELINE
        table.add_column(f"{planner} [{unit}]" if absolute else planner, justify="right")
    for network in result.networks:
        rows = [row for row in result.rows if row.network == network]
        cells = [
            f"{row.energy_j:.4g}"
            if metric == "energy" and row.planner == BASELINE and row.energy_j is not None
            else _cell(metric, row.metric(metric))
            for row in rows
        ]
        table.add_row(network, *cells)
    table.add_section()
    means = [
        "" if metric == "energy" and p == BASELINE else _cell(metric, mean)
        for p, mean in result.means(metric).items()
    ]
    table.add_row("geometric mean", *means)
    return table


_WORDS = {
    "energy": ("Energy efficiency over data parallelism", "J"),
    "traffic": ("Traffic of a step", "GB"),
}


def _cell(metric: str, value: float | None) -> str:
    """Gigabytes, or a ratio; a dash where there is none."""
    if value is None:
        return "-"
    return f"{value / 1e9:.4g}" if metric == "traffic" else f"{value:.3f}"


FEW = 5
"""Planners beside which a terminal has room for what they do on the fastest devices alone."""


def _times(result: Comparison) -> list[Table]:
    """One table, or two where there are many planners."""
    alone = [
        p for p in result.planners if all(r.fast_alone_speedup is not None for r in result.of(p))
    ]
    if len(result.planners) <= FEW or not alone:
        return [_table(result, result.planners, alone)]
    return [_table(result, result.planners, []), _table(result, [], alone)]


def _table(result: Comparison, planners: list[str], alone: list[str]) -> Table:
    """Speedups of ``planners``, and of those ``alone`` on the fastest devices."""
    from rich.table import Table

    from experiments.studies.speedups import BASELINE, geometric_mean

    table = Table(title=f"Speedup over data parallelism, {result.case}")
    table.add_column("network")
    for planner in planners:
        name = f"{planner} [s]" if planner == BASELINE else planner
        wrapped = name.replace("_", " ") if len(planners) > FEW else name
        table.add_column(wrapped, justify="right")
    for planner in alone:
        table.add_column(f"{planner}: slow share", justify="right")
        table.add_column(f"{planner}: fast alone", justify="right")
    for network in result.networks:
        rows = {row.planner: row for row in result.rows if row.network == network}
        cells = [
            f"{rows[p].iteration_s:.6f}" if p == BASELINE else f"{rows[p].speedup:.3f}"
            for p in planners
        ]
        for planner in alone:
            cells += [f"{rows[planner].slow_share:.2%}", f"{rows[planner].fast_alone_speedup:.3f}"]
        table.add_row(network, *cells)
    table.add_section()
    means = ["" if p == BASELINE else f"{result.geomean[p]:.3f}" for p in planners]
    for planner in alone:
        means += [
            "",
            f"{geometric_mean([r.fast_alone_speedup or 0 for r in result.of(planner)]):.3f}",
        ]
    table.add_row("geometric mean", *means)
    if result.published and planners:
        ours, paper = result.geomean, result.published
        values = [f"{paper[p].speedup:.2f}" if p in paper else "" for p in planners]
        table.add_row("the paper's", *values)
        table.add_row(
            "difference",
            *[f"{ours[p] / paper[p].speedup - 1:+.1%}" if p in paper else "" for p in planners],
        )
    return table


def levels_to_dict(array: str, batch: int, sweep: list[Level]) -> dict[str, Any]:
    """What ``--format json`` prints."""
    return {
        "array": array,
        "batch": batch,
        "execution": sweep[0].result.execution,
        "levels": [
            {
                "levels": level.levels,
                "accelerators": level.accelerators,
                "rows": [row.values(level.result.metrics) for row in level.result.rows],
                "geomean": level.result.geomean,
                **{
                    f"geomean_{metric}": level.result.means(metric)
                    for metric in level.result.metrics
                    if metric != "time"
                },
            }
            for level in sweep
        ],
        "warnings": [
            *(fault for level in sweep for fault in level.result.overflows),
            *sweep[0].result.unread,
        ],
    }


def levels_to_frame(sweep: list[Level]) -> pandas.DataFrame:
    """One line a case."""
    import pandas

    frames = [
        level.result.to_frame().assign(levels=level.levels, accelerators=level.accelerators)
        for level in sweep
    ]
    return pandas.concat(frames, ignore_index=True)


def levels_tables(array: str, batch: int, sweep: list[Level]) -> list[Table | str]:
    """Geometric means by number of levels, a table for each metric, and which plans lose."""
    from experiments.studies.speedups import slower

    found = [_levels(array, batch, sweep, metric) for metric in sweep[0].result.metrics]
    losing = [f"{level.levels} levels: {said}" for level in sweep for said in slower(level.result)]
    return [*found, *losing, *sweep[0].result.unread]


WORDS = {
    "time": "Speedup over data parallelism",
    "energy": "Energy efficiency over data parallelism",
    "traffic": "Traffic of a step in GB",
}


def _levels(array: str, batch: int, sweep: list[Level], metric: str) -> Table:
    from rich.table import Table

    networks = sweep[0].result.networks
    of = networks[0] if len(networks) == 1 else f"geometric mean of {len(networks)} networks"
    case = replace(sweep[0].result, array=f"{array}, {of}", batch=batch).case
    table = Table(title=f"{WORDS[metric]}, {case}")
    table.add_column("levels", justify="right")
    table.add_column("accelerators", justify="right")
    for planner in sweep[0].result.planners:
        table.add_column(planner, justify="right")
    for level in sweep:
        values = level.result.means(metric).values()
        means = [_cell(metric, value) for value in values]
        table.add_row(str(level.levels), f"{level.accelerators:,}", *means)
    return table
