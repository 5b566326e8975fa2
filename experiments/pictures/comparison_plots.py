"""Pictures of comparisons: bars network by network, and lines along the array's size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.pictures.figures import (
    COLOURS,
    PAPER_WIDTH,
    panels,
    plain,
    speedup_axis,
    write_above,
)
from experiments.pictures.rectangles import CHARACTER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from experiments.studies.scaling import Level
    from experiments.studies.speedups import Comparison

LEGEND_SIZE = 8
"""Points."""
HANDLE, MARGINS = 0.5, 0.8
"""Inches: a legend's patch and what is around it, and what is beside the axes."""


def plot_speedups(result: Comparison) -> Figure:
    """Grouped bars for each network and the geometric mean; the paper's averages as marks."""
    planners, groups = result.planners, [*map(plain, result.networks), "geometric\nmean"]
    width = 0.8 / len(planners)
    figure, (axes,) = panels(2.2 + 1.0 * len(groups), 4.2)
    for i, planner in enumerate(planners):
        heights = [row.speedup for row in result.of(planner)] + [result.geomean[planner]]
        places = [g + (i - (len(planners) - 1) / 2) * width for g in range(len(groups))]
        axes.bar(
            places, heights, width * 0.92, color=COLOURS[i % len(COLOURS)], label=plain(planner)
        )
        tops = list(heights)
        if planner in result.published:
            paper = result.published[planner].speedup
            ends = [places[-1] - width / 2, places[-1] + width / 2]
            axes.plot(ends, [paper, paper], "k-", lw=PAPER_WIDTH, label="_the paper's average")
            tops[-1] = max(tops[-1], paper)
        for place, top, height in zip(places, tops, heights, strict=True):
            write_above(axes, place, top, f"{height:.3g}")
    axes.axhline(1, color="#555555", lw=0.6)
    axes.set_xticks(range(len(groups)), groups)
    speedup_axis(axes)
    _legend(figure, axes, plain(result.case), paper=bool(result.published))
    return figure


def plot_levels(array: str, sweep: list[Level]) -> Figure:
    """Speedup against the number of levels, a line for each planner."""
    first = sweep[0].result
    of = first.networks[0] if len(first.networks) == 1 else "geometric mean"
    levels = [level.levels for level in sweep]
    figure, (axes,) = panels(3 + 0.45 * len(levels), 4.2)
    for i, planner in enumerate(first.planners):
        means = [level.result.geomean[planner] for level in sweep]
        axes.plot(levels, means, "o-", ms=4, color=COLOURS[i % len(COLOURS)], label=plain(planner))
    axes.set_xticks(levels, [f"{level.levels}\n{level.accelerators:,}" for level in sweep])
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel("levels, accelerators")
    speedup_axis(axes)
    _legend(figure, axes, f"{plain(array)}, {of}, batch {first.batch}", paper=False)
    return figure


def _legend(figure: Figure, axes: Axes, title: str, *, paper: bool) -> None:
    """The title, and below it, clear of the bars, as many entries a row as there is room for."""
    handles, labels = axes.get_legend_handles_labels()
    if paper:
        handles.append(next(line for line in axes.lines if line.get_linewidth() == PAPER_WIDTH))
        labels.append("the paper's average")
    width = figure.get_figwidth() - MARGINS
    entries = [HANDLE + len(label) * LEGEND_SIZE * CHARACTER for label in labels]
    columns = len(labels) if sum(entries) < width else max(1, int(width / max(entries)))
    rows = -(-len(labels) // columns)
    axes.set_title(title, pad=6 + 1.7 * LEGEND_SIZE * rows)
    axes.legend(
        handles,
        labels,
        ncols=columns,
        fontsize=LEGEND_SIZE,
        frameon=False,
        loc="lower center",
        bbox_to_anchor=(0.5, 0.985),
    )
