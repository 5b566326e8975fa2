"""A training run as tables: one method's, several side by side, or a grid's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table

from experiments.output import fitted, pairs_table
from experiments.results.formats import flat
from experiments.studies.options import Axis
from experiments.terms import duration
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
        at_s = learned["time_to_target_s"]
        rows[f"time to {learned['target']:g}"] = "never" if at_s is None else duration(at_s)
    return rows


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
        "one worker's step": " to ".join(
            dict.fromkeys(duration(of(data["steps_s"])) for of in (min, max))
        ),
        "gradients": format_quantity(data["gradient_bytes"], "B"),
    }
    times = {"time": duration(data["time_s"])}
    if (everybody_s := data["everybody_s"]) is not None:
        times[f"everybody's {data['iterations']}"] = duration(everybody_s)
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


def measures(data: Mapping[str, Any]) -> dict[str, Any]:
    """Numbers of a run, one each, of what ``--format json`` has of it.

    ``waiting`` is the share of all workers' time, ``staleness`` the mean, ``gap`` the largest.
    """
    stale = {int(value): count for value, count in data["staleness"].items()}
    whole_s = data["time_s"] * len(data["workers"]) or 1.0
    row = {
        "iterations_per_s": data["iterations_per_s"],
        "slowest_per_s": min(data["workers"]),
        "time_s": data["time_s"],
        "waiting": sum(data["waiting"].values()) / whole_s,
        "staleness": mean(stale),
        "gap": max(map(int, data["gaps"]), default=0),
    }
    if learned := data["learning"]:
        row["loss"] = learned["loss"]
        if learned["target"] is not None:
            row["time_to_target_s"] = learned["time_to_target_s"]
    return row


def lines(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A line of a spreadsheet for each method."""
    return [
        {
            **{key: value for key, value in flat(one).items() if key not in ("hang", "learning")},
            "workers": len(one["workers"]),
            "slowdown": ", ".join(one["slowdown"]),
            **measures(one),
            "hang": "yes" if one["hang"] else None,
        }
        for one in found
    ]


HEADINGS = {
    "iterations_per_s": "iterations/s",
    "slowest_per_s": "slowest",
    "time_s": "time",
    "staleness": "stale",
    "time_to_target_s": "to target",
}
LEAST = ("to target", "gap", "stale", "slowest", "waiting")
"""Columns that narrow terminals do without, the first of them first."""


def _cells(row: Mapping[str, Any]) -> dict[str, str]:
    """Measures as people read them."""

    def shown(key: str, value: Any) -> str:
        if value is None:
            return "never" if key == "time_to_target_s" else ""
        if key == "waiting":
            return f"{value:.1%}"
        if key in ("time_s", "time_to_target_s"):
            return duration(value)
        if not isinstance(value, float):
            return str(value)
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"

    return {HEADINGS.get(key, key): shown(key, value) for key, value in row.items()}


def several(found: Sequence[Mapping[str, Any]]) -> Iterator[Table | str]:
    """A row for each method, of what ``--format json`` has of it."""
    first = found[0]
    slow, workers = ", ".join(first["slowdown"]), len(first["workers"])
    title = f"{first['network']}, {workers} workers on {first['array']}, slowdown {slow}"
    rows = [{"method": one["method"]} | _cells(measures(one)) for one in found]
    if any(one["hang"] for one in found):
        rows = [
            row | {"hangs": "yes" if one["hang"] else ""}
            for row, one in zip(rows, found, strict=True)
        ]
    if (learned := first["learning"]) and learned["target"] is not None:
        title = f"{title}, target loss {learned['target']:g}"
    yield from fitted(title, rows, LEAST[1:4])
    if learned:
        yield SMALL


def named(axis: Axis) -> str:
    """The key of a varied value; ``loss`` is what is reached."""
    return "target_loss" if axis.key == "loss" else axis.title


def grid(about: str, axes: Sequence[Axis], rows: Sequence[dict[str, Any]]) -> list[Table | str]:
    """A row for each run of a grid, and why those hang that do."""
    hangs, varied = [row["hang"] for row in rows if row["hang"]], [*map(named, axes)]
    labels = [{value.number: value.label for value in axis.values} for axis in axes]
    shown = []
    for row in rows:
        values = [(known, row[name]) for known, name in zip(labels, varied, strict=True)]
        cells = {
            "target loss" if axis.key == "loss" else axis.key: str(known.get(value, value))
            for axis, (known, value) in zip(axes, values, strict=True)
        }
        own = {key: value for key, value in row.items() if key not in varied and key != "hang"}
        cells |= _cells(own)
        if hangs:
            cells["hangs"] = "yes" if row["hang"] else ""
        shown.append(cells)
    return [*fitted(about, shown, LEAST), *hangs[:1]]
