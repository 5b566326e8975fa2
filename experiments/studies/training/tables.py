"""A training run as tables: one method's, several side by side, or a grid's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from experiments.output import fitted, pairs_table
from experiments.studies.options import Axis
from experiments.studies.training.run import Training
from hardware import format_quantity

LEAST_REST = 5e-4
"""Of all workers' time in iterations that the end cuts off: from so much on it is told."""
SHOWN_LINKS = 5
SMALL = (
    "The model that learns is a small one of seeded, synthetic data, not the network that is timed."
)


def learned_rows(data: Mapping[str, Any]) -> dict[str, str]:
    """The loss that was reached, and when the one that was asked about was."""
    if not (learned := data["learning"]):
        return {}
    rows = {f"loss, {learned['problem']}": f"{learned['loss']:.6g}"}
    if learned["target"] is not None:
        rows[f"time to {learned['target']:g}"] = _reached(learned, " s")
    return rows


def _reached(learned: Mapping[str, Any], unit: str = "") -> str:
    at_s = learned["time_to_target_s"]
    return "never" if at_s is None else f"{at_s:.6g}{unit}"


def tables(found: Sequence[Mapping[str, Any]]) -> Iterator[Table | str]:
    """What people read, of what ``--format json`` has of each method."""
    if len(found) == 1:
        yield _one(found[0])
        if found[0]["learning"]:
            yield SMALL
    else:
        yield from several(found)


def _one(data: Mapping[str, Any]) -> Table:
    each = data["workers"]
    whole = data["time_s"] * len(each) or 1.0
    about = {
        "array": data["array"],
        "workers": f"{len(each)}, each a {data['worker_is']}, {data['batch']} samples",
        "slowdown": ", ".join(data["slowdown"]),
        **({"graph": data["graph"]} if data["graph"] is not None else {}),
        "one worker's step": f"{data['step_s']:.9f} s",
        "gradients": format_quantity(data["gradient_bytes"], "B"),
    }
    times = {"time": f"{data['time_s']:.9f} s"}
    if (everybody_s := data["everybody_s"]) is not None:
        times[f"everybody's {data['iterations']}"] = f"{everybody_s:.9f} s"
    times |= {
        "iterations": f"{data['iterations_per_s']:.6g} a second, all together",
        "": f"{min(each):.6g} to {max(each):.6g} a second each",
        "staleness": spread(data["staleness"]),
        "ahead of the last worker": spread(data["gaps"]),
    }
    spent = {"computing": f"{data['computing_s'] / whole:.2%} of all workers' time"}
    waiting = data["waiting"].items()
    spent |= {f"waiting: {cause}": f"{seconds / whole:.2%}" for cause, seconds in waiting}
    rest = 1 - (data["computing_s"] + sum(data["waiting"].values())) / whole
    spent |= {"not finished at the end": f"{rest:.2%}"} if rest > LEAST_REST else {}
    largest = sorted(data["bytes"].items(), key=lambda one: (-one[1], one[0]))
    links = {name: format_quantity(moved, "B") for name, moved in largest[:SHOWN_LINKS]}
    if more := len(largest[SHOWN_LINKS:]):
        links[""] = f"and {more} more links (--format json)"
    title = f"{data['network']}, {data['method']}"
    sections = (about, times, spent, links, learned_rows(data))
    return pairs_table(title, *(section.items() for section in sections))


def mean(counts: Mapping[int, int]) -> float:
    """Of a histogram; 0 of none."""
    return sum(value * count for value, count in counts.items()) / max(sum(counts.values()), 1)


def spread(histogram: Mapping[str, int]) -> str:
    """Mean and largest of a histogram."""
    counts = {int(value): count for value, count in histogram.items()}
    if not sum(counts.values()):
        return "none"
    return f"{mean(counts):.3g} on average, at most {max(counts)}"


def several(found: Sequence[Mapping[str, Any]]) -> Iterator[Table | str]:
    """A row for each method, of what ``--format json`` has of it."""
    first = found[0]
    slow, workers = ", ".join(first["slowdown"]), len(first["workers"])
    title = f"{first['network']}, {workers} workers on {first['array']}, slowdown {slow}"
    rows = []
    for one in found:
        stale = {int(value): count for value, count in one["staleness"].items()}
        waited = sum(one["waiting"].values()) / (one["time_s"] * workers or 1.0)
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
        if learned and learned["target"] is not None:
            row[f"to {learned['target']:g} [s]"] = _reached(learned)
        if any(other["hang"] for other in found):
            row["hangs"] = "yes" if one["hang"] else ""
        rows.append(row)
    yield from fitted(title, rows, ("gap", "stale", "slowest"))
    if first["learning"]:
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
