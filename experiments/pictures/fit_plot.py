"""Combinations of axes as points: how fast each is, against the memory that it takes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from experiments.output import UsageError
from experiments.pictures.colours import COLOURS
from experiments.pictures.figures import LEGEND_SIZE, panels, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def plot_fit(rows: Sequence[dict[str, Any]], title: str) -> Figure:
    """Every combination that fits (the fastest first), by tensor parallelism; the best is named.

    Raises UsageError where none does.
    """
    if not rows:
        raise UsageError("--plot: no combination fits, so there is nothing to draw")
    figure, (axes,) = panels(6.4, 4.2)
    for number, tp in enumerate(sorted({row["tp"] for row in rows})):
        some = [row for row in rows if row["tp"] == tp]
        axes.scatter(
            [row["peak_memory_bytes"] / 2**30 for row in some],
            [row["samples_per_s"] for row in some],
            s=12,
            color=COLOURS[number % len(COLOURS)],
            label=f"tp {tp}",
        )
    best = rows[0]
    names = ", ".join(f"{name} {best[name]}" for name in ("dp", "tp", "pp") if best[name] > 1)
    place = best["peak_memory_bytes"] / 2**30, best["samples_per_s"]
    axes.annotate(names or "one device", place, (4, 4), textcoords="offset points", fontsize=8)
    axes.set_xlabel("memory of the fullest device [GiB]")
    axes.set_ylabel("samples a second")
    axes.set_ylim(bottom=0)
    axes.set_title(plain(title), fontsize=10)
    axes.grid(lw=0.3)
    axes.set_axisbelow(True)
    axes.legend(fontsize=LEGEND_SIZE, loc="best")
    return figure
