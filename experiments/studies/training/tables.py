"""A training run as tables: one method's, or several side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hardware import format_quantity

if TYPE_CHECKING:
    from rich.table import Table

    from experiments.studies.options import Axis
    from experiments.studies.training.run import Trained, Training
    from experiments.studies.training.sweep import Row


SHOWN_LINKS = 5
SMALL = (
    "The model that learns is a small one of seeded, synthetic data, not the network that is timed."
)


def tables(found: Sequence[Trained]) -> Iterator[Table | str]:
    """What people read."""
    if len(found) == 1:
        yield _one(found[0])
    else:
        yield from _several(found)
    if found[0].learned:
        yield SMALL


def _one(trained: Trained) -> Table:
    from rich.table import Table

    asked, run, cluster = trained.asked, trained.run, trained.run.cluster
    table = Table(show_header=False, title=f"{asked.network.name}, {asked.method}")
    table.add_row("array", asked.array.name)
    table.add_row("workers", f"{asked.workers}, each a {cluster.unit}, {asked.batch} samples")
    table.add_row("slowdown", ", ".join(asked.slowdowns) or "none")
    if asked.way.graph:
        table.add_row("graph", run.graph.name)
    table.add_row("one worker's step", f"{cluster.steps[0].duration_ps / 1e12:.9f} s")
    table.add_row("gradients", format_quantity(cluster.gradient_bytes, "B"))
    table.add_section()
    table.add_row("time", f"{trained.time_s:.9f} s")
    if (everybody := trained.everybody_s) is not None:
        table.add_row(f"everybody's {asked.iterations}", f"{everybody:.9f} s")
    table.add_row("iterations", f"{trained.iterations_per_s:.6g} a second, all together")
    each = trained.each_per_s
    table.add_row("", f"{min(each):.6g} to {max(each):.6g} a second each")
    table.add_row("staleness", spread(run.staleness))
    table.add_row("ahead of the last worker", spread(run.gaps))
    table.add_section()
    whole = trained.time_s * asked.workers or 1.0
    table.add_row("computing", f"{trained.computing_s / whole:.2%} of all workers' time")
    for cause, seconds in trained.waiting.items():
        table.add_row(f"waiting: {cause}", f"{seconds / whole:.2%}")
    table.add_section()
    for name, moved in sorted(trained.bytes.items(), key=lambda one: (-one[1], one[0]))[
        :SHOWN_LINKS
    ]:
        table.add_row(name, format_quantity(moved, "B"))
    if more := max(len(trained.bytes) - SHOWN_LINKS, 0):
        table.add_row("", f"and {more} more links (--format json)")
    if trained.learned:
        table.add_section()
        table.add_row(f"loss, {asked.learn}", f"{trained.learned.curve[-1][1]:.6g}")
        if asked.loss is not None:
            table.add_row(f"time to {asked.loss:g}", _time_to(trained))
    return table


def _time_to(trained: Trained) -> str:
    at_s = trained.to_target_s
    return "never" if at_s is None else f"{at_s:.6g} s"


def spread(counts: dict[int, int]) -> str:
    """Mean and largest of a histogram."""
    many = sum(counts.values())
    if not many:
        return "none"
    mean = sum(value * count for value, count in counts.items()) / many
    return f"{mean:.3g} on average, at most {max(counts)}"


def _several(found: Sequence[Trained]) -> list[Table | str]:
    from experiments.output import fitted

    asked = found[0].asked
    slow = ", ".join(asked.slowdowns) or "none"
    title = f"{asked.network.name}, {asked.workers} workers on {asked.array.name}, slowdown {slow}"
    rows = []
    for one in found:
        whole = one.time_s * asked.workers or 1.0
        row = {
            "method": one.asked.method,
            "iterations/s": f"{one.iterations_per_s:.5g}",
            "slowest": f"{min(one.each_per_s):.4g}",
            "time [s]": f"{one.time_s:.5g}",
            "waiting": f"{sum(one.waiting.values()) / whole:.1%}",
            "stale": _mean(one.run.staleness),
            "gap": str(max(one.run.gaps, default=0)),
        }
        if one.learned:
            row["loss"] = f"{one.learned.curve[-1][1]:.4g}"
        if one.learned and asked.loss is not None:
            row[f"to {asked.loss:g} [s]"] = _time_to(one).removesuffix(" s")
        if any(other.hang for other in found):
            row["hangs"] = "yes" if one.hang else ""
        rows.append(row)
    return fitted(title, rows, ("gap", "stale", "slowest"))


def grid(asked: Training, axes: Sequence[Axis], rows: Sequence[Row]) -> list[Table | str]:
    """A row for each run of a grid, and why those hang that do."""
    from experiments.output import fitted

    shown = []
    for row in rows:
        cells = {axis.title: str(row[axis.title]) for axis in axes}
        cells |= {key: _number(value) for key, value in row.items() if key not in (*cells, "hang")}
        if any(other["hang"] for other in rows):
            cells["hangs"] = "yes" if row["hang"] else ""
        shown.append(cells)
    title = f"{asked.network.name}, {len(rows)} runs"
    least = ("time_to_target_s", "staleness", "gap", "slowest_per_s", "waiting")
    hangs = [row["hang"] for row in rows if row["hang"]]
    return [*fitted(title, shown, least), *hangs[:1]]


def _number(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _mean(counts: dict[int, int]) -> str:
    many = sum(counts.values())
    return f"{sum(v * c for v, c in counts.items()) / many:.3g}" if many else ""
