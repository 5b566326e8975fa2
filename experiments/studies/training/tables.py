"""A training run as tables: one method's, several side by side, or a grid's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from experiments.output import fitted, pairs_table
from hardware import format_quantity

if TYPE_CHECKING:
    from rich.table import Table

    from experiments.studies.options import Axis
    from experiments.studies.training.run import Trained, Training
    from simulator.asynchronous.learning.models import Learned

SHOWN_LINKS = 5
SMALL = (
    "The model that learns is a small one of seeded, synthetic data, not the network that is timed."
)


def learned_rows(asked: Training, learned: Learned | None) -> dict[str, str]:
    """The loss that was reached, and when the one that was asked about was."""
    if learned is None:
        return {}
    rows = {f"loss, {asked.learn}": f"{learned.curve[-1][1]:.6g}"}
    if asked.loss is not None:
        at_s = asked.to_target_s(learned)
        rows[f"time to {asked.loss:g}"] = "never" if at_s is None else f"{at_s:.6g} s"
    return rows


def tables(found: Sequence[Trained]) -> Iterator[Table | str]:
    """What people read."""
    if len(found) == 1:
        yield _one(found[0])
        if found[0].learned:
            yield SMALL
    else:
        yield from several(found[0].asked, [one.to_dict() for one in found])


def _one(trained: Trained) -> Table:
    asked, run, cluster = trained.asked, trained.run, trained.run.cluster
    each, whole = trained.each_per_s, trained.time_s * asked.workers or 1.0
    about = {
        "array": asked.array.name,
        "workers": f"{asked.workers}, each a {cluster.unit}, {asked.batch} samples",
        "slowdown": ", ".join(asked.slowdowns) or "none",
        **({"graph": run.graph.name} if asked.way.graph else {}),
        "one worker's step": f"{cluster.steps[0].duration_ps / 1e12:.9f} s",
        "gradients": format_quantity(cluster.gradient_bytes, "B"),
    }
    times = {"time": f"{trained.time_s:.9f} s"}
    if (everybody := trained.everybody_s) is not None:
        times[f"everybody's {asked.iterations}"] = f"{everybody:.9f} s"
    times |= {
        "iterations": f"{trained.iterations_per_s:.6g} a second, all together",
        "": f"{min(each):.6g} to {max(each):.6g} a second each",
        "staleness": spread(run.staleness),
        "ahead of the last worker": spread(run.gaps),
    }
    spent = {"computing": f"{trained.computing_s / whole:.2%} of all workers' time"}
    spent |= {f"waiting: {cause}": f"{share:.2%}" for cause, share in trained.shares.items()}
    largest = sorted(trained.bytes.items(), key=lambda one: (-one[1], one[0]))
    links = {name: format_quantity(moved, "B") for name, moved in largest[:SHOWN_LINKS]}
    if more := len(largest[SHOWN_LINKS:]):
        links[""] = f"and {more} more links (--format json)"
    title = f"{asked.network.name}, {asked.method}"
    sections = (about, times, spent, links, learned_rows(asked, trained.learned))
    return pairs_table(title, *(section.items() for section in sections))


def mean(counts: Mapping[int, int]) -> float:
    """Of a histogram; 0 of none."""
    return sum(value * count for value, count in counts.items()) / max(sum(counts.values()), 1)


def spread(counts: Mapping[int, int]) -> str:
    """Mean and largest of a histogram."""
    if not sum(counts.values()):
        return "none"
    return f"{mean(counts):.3g} on average, at most {max(counts)}"


def several(asked: Training, found: Sequence[Mapping[str, Any]]) -> Iterator[Table | str]:
    """A row for each method, of what ``--format json`` has of it."""
    slow = ", ".join(asked.slowdowns) or "none"
    title = f"{asked.network.name}, {asked.workers} workers on {asked.array.name}, slowdown {slow}"
    rows = []
    for one in found:
        stale = {int(value): count for value, count in one["staleness"].items()}
        waited = sum(one["waiting"].values()) / (one["time_s"] * asked.workers or 1.0)
        row = {
            "method": one["method"],
            "iterations/s": f"{one['iterations_per_s']:.5g}",
            "slowest": f"{min(one['workers']):.4g}",
            "time [s]": f"{one['time_s']:.5g}",
            "waiting": f"{waited:.1%}",
            "stale": f"{mean(stale):.3g}" if stale else "",
            "gap": str(max(map(int, one["gaps"]), default=0)),
        }
        if learned := one["learning"]:
            row["loss"] = f"{learned['loss']:.4g}"
        if learned and asked.loss is not None:
            at_s = learned["time_to_target_s"]
            row[f"to {asked.loss:g} [s]"] = "never" if at_s is None else f"{at_s:.6g}"
        if any(other["hang"] for other in found):
            row["hangs"] = "yes" if one["hang"] else ""
        rows.append(row)
    yield from fitted(title, rows, ("gap", "stale", "slowest"))
    if found[0]["learning"]:
        yield SMALL


def grid(
    asked: Training, axes: Sequence[Axis], rows: Sequence[dict[str, Any]]
) -> list[Table | str]:
    """A row for each run of a grid, and why those hang that do."""
    hangs = [row["hang"] for row in rows if row["hang"]]
    shown = []
    for row in rows:
        cells = {axis.title: str(row[axis.title]) for axis in axes}
        cells |= {key: _number(value) for key, value in row.items() if key not in (*cells, "hang")}
        if hangs:
            cells["hangs"] = "yes" if row["hang"] else ""
        shown.append(cells)
    title = f"{asked.network.name}, {len(rows)} runs"
    least = ("time_to_target_s", "staleness", "gap", "slowest_per_s", "waiting")
    return [*fitted(title, shown, least), *hangs[:1]]


def _number(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.5g}" if isinstance(value, float) else str(value)
