"""Pictures of results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.output import UsageError, whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from experiments.speedup import Comparison

FORMATS = (".png", ".svg", ".pdf")
COLOURS = ("#4477aa", "#228833", "#ee6677", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")
"""Paul Tol's bright scheme, told apart by colour-blind readers too."""


def check_plot(path: str) -> None:
    """Raise UsageError unless the file name ends in a format we draw."""
    if Path(path).suffix.lower() not in FORMATS:
        raise UsageError(f"--plot {path!r}: the name must end in {', '.join(FORMATS)}")


def plot_speedups(result: Comparison, path: str) -> None:
    """Grouped bars for each network and the geometric mean; the paper's averages as marks."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    planners, groups = result.planners, [*result.networks, "geometric\nmean"]
    width = 0.8 / len(planners)
    figure, axes = pyplot.subplots(figsize=(2.2 + 1.0 * len(groups), 4.2), layout="constrained")
    for i, planner in enumerate(planners):
        heights = [row.speedup for row in result.of(planner)] + [result.geomean[planner]]
        places = [g + (i - (len(planners) - 1) / 2) * width for g in range(len(groups))]
        axes.bar(places, heights, width * 0.92, color=COLOURS[i % len(COLOURS)], label=planner)
        tops = list(heights)
        if planner in result.published:
            paper = result.published[planner].speedup
            ends = [places[-1] - width / 2, places[-1] + width / 2]
            axes.plot(ends, [paper, paper], "k-", lw=2, label="_the paper's average")
            tops[-1] = max(tops[-1], paper)
        for place, top, height in zip(places, tops, heights, strict=True):
            axes.annotate(
                f"{height:.3g}",
                (place, top),
                (0, 3),
                textcoords="offset points",
                ha="center",
                rotation=90,
                fontsize=6,
            )
    _finish_speedups(axes, result, groups)
    with whole_file(path) as target:
        figure.savefig(target, dpi=150)
    pyplot.close(figure)


def _finish_speedups(axes: Axes, result: Comparison, groups: list[str]) -> None:
    """Axes, title and legend of the bars."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.axhline(1, color="#555555", lw=0.6)
    axes.set_yscale("log")
    axes.margins(x=0.02, y=0.12)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xticks(range(len(groups)), groups)
    axes.set_ylabel("speedup over data parallelism")
    axes.set_title(f"{result.array}, batch {result.batch}")
    axes.grid(axis="y", lw=0.3)
    axes.set_axisbelow(True)
    handles, labels = axes.get_legend_handles_labels()
    if result.published:
        handles.append(next(line for line in axes.lines if line.get_linewidth() == 2))
        labels.append("the paper's average")
    axes.legend(handles, labels, ncols=len(labels), fontsize=8, frameon=False, loc="upper right")
