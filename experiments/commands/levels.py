"""``accelarray speedup --levels``: the hierarchy sweep as a table, CSV, JSON and lines."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table

    from experiments.studies.scaling import Level


def parse_levels(text: str) -> list[int]:
    """``2,3,8-16`` to numbers, ascending; raises UsageError."""
    from experiments.output import UsageError

    levels: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        bounds = (first, last if dash else first)
        if not all(b.isascii() and b.isdigit() and len(b) < 4 for b in bounds):
            raise UsageError(f"--levels {text!r}: expected numbers, as 2,3,4 or 2-16")
        levels.update(range(int(bounds[0]), int(bounds[1]) + 1))
    if not levels:
        raise UsageError(f"--levels {text!r}: an empty range")
    return sorted(levels)


def to_dict(array: str, batch: int, sweep: list[Level]) -> dict[str, Any]:
    """What ``--format json`` prints."""
    return {
        "array": array,
        "batch": batch,
        "execution": sweep[0].result.execution,
        "levels": [
            {
                "levels": level.levels,
                "accelerators": level.accelerators,
                "rows": [row.values() for row in level.result.rows],
                "geomean": level.result.geomean,
                **{
                    f"geomean_{metric}": level.result.means(metric)
                    for metric in level.result.metrics
                    if metric != "time"
                },
            }
            for level in sweep
        ],
    }


def to_csv(sweep: list[Level]) -> str:
    """One line a case."""
    import pandas

    frames = [
        level.result.to_frame().assign(levels=level.levels, accelerators=level.accelerators)
        for level in sweep
    ]
    return pandas.concat(frames).to_csv(index=False, lineterminator="\n")


def to_table(array: str, batch: int, sweep: list[Level]) -> str:
    """Geometric means by number of levels, a table for each metric, and which plans lose."""
    from experiments.output import text_of
    from experiments.studies.comparison import slower

    tables = [_table(array, batch, sweep, metric) for metric in sweep[0].result.metrics]
    losing = [f"{level.levels} levels: {said}" for level in sweep for said in slower(level.result)]
    return text_of(*tables, *losing)


WORDS = {
    "time": "Speedup over data parallelism",
    "energy": "Energy efficiency over data parallelism",
    "traffic": "Traffic of a step in GB",
}


def _table(array: str, batch: int, sweep: list[Level], metric: str) -> Table:
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
        means = [f"{v / 1e9:.4g}" if metric == "traffic" else f"{v:.3f}" for v in values]
        table.add_row(str(level.levels), f"{level.accelerators:,}", *means)
    return table
