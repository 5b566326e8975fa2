"""Pictures of comparisons: bars network by network, and lines along the array's size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.pictures.colours import colours
from experiments.pictures.figures import (
    MARGINS,
    PAPER_WIDTH,
    legend_below_title,
    panels,
    plain,
    speedup_axis,
    write_value,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from experiments.studies.scaling import Level
    from experiments.studies.speedups import Comparison


def plot_speedups(result: Comparison) -> Figure:
    """Grouped bars for each network and the geometric mean; the paper's averages as marks."""
    planners, groups = result.planners, [*map(plain, result.networks), "geometric\nmean"]
    width = 0.8 / len(planners)
    figure, (axes,) = panels(2.2 + 1.0 * len(groups), 4.2)
    colour = colours(planners)
    for i, planner in enumerate(planners):
        heights = [row.speedup for row in result.of(planner)] + [result.geomean[planner]]
        places = [g + (i - (len(planners) - 1) / 2) * width for g in range(len(groups))]
        axes.bar(places, heights, width * 0.92, color=colour[planner], label=plain(planner))
        marks: list[float | None] = [None] * len(heights)
        if planner in result.published:
            paper = result.published[planner].speedup
            ends = [places[-1] - width / 2, places[-1] + width / 2]
            axes.plot(ends, [paper, paper], "k-", lw=PAPER_WIDTH, label="_the paper's average")
            marks[-1] = paper
        for place, height, mark in zip(places, heights, marks, strict=True):
            write_value(axes, place, height, f"{height:.3g}", mark)
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
    for planner, colour in colours(first.planners).items():
        means = [level.result.geomean[planner] for level in sweep]
        axes.plot(levels, means, "o-", ms=4, color=colour, label=plain(planner))
    axes.set_xticks(levels, [f"{level.levels}\n{level.accelerators:,}" for level in sweep])
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel("levels, accelerators")
    speedup_axis(axes)
    title = f"{plain(array)}, {of}, batch {first.batch}, {first.execution}"
    _legend(figure, axes, title, paper=False)
    return figure


def _legend(figure: Figure, axes: Axes, title: str, *, paper: bool) -> None:
    """The title and the planners; the papers' marks as one entry."""
    handles, labels = axes.get_legend_handles_labels()
    if paper:
        handles.append(next(line for line in axes.lines if line.get_linewidth() == PAPER_WIDTH))
        labels.append("the paper's average")
    legend_below_title(axes, title, handles, labels, figure.get_figwidth() - MARGINS)
