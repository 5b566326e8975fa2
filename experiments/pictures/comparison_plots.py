"""Pictures of results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.output import UsageError, whole_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from experiments.studies.comparison import Comparison
    from experiments.studies.scaling import Level

FORMATS = (".png", ".svg", ".pdf")
COLOURS = ("#4477aa", "#228833", "#ee6677", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")
"""Paul Tol's bright scheme, told apart by colour-blind readers too."""


PAPER_WIDTH = 2.0
"""Line width of the paper's marks."""


def check_plot(path: str) -> None:
    """Raise UsageError unless the file name ends in a format we draw."""
    if Path(path).suffix.lower() not in FORMATS:
        raise UsageError(f"--plot {path!r}: the name must end in {', '.join(FORMATS)}")


def plot_speedups(result: Comparison, path: str) -> None:
    """Grouped bars for each network and the geometric mean; the paper's averages as marks."""
    planners, groups = result.planners, [*map(plain, result.networks), "geometric\nmean"]
    width = 0.8 / len(planners)
    figure, (axes,) = new_figure(2.2 + 1.0 * len(groups), 4.2, 1, 1)
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
    axes.set_title(plain(result.case))
    speedup_axis(axes)
    _legend(axes, paper=bool(result.published))
    save(figure, path)


def plot_levels(array: str, sweep: list[Level], path: str) -> None:
    """Speedup against the number of levels, a line for each planner."""
    first = sweep[0].result
    of = first.networks[0] if len(first.networks) == 1 else "geometric mean"
    levels = [level.levels for level in sweep]
    figure, (axes,) = new_figure(3 + 0.45 * len(levels), 4.2, 1, 1)
    for i, planner in enumerate(first.planners):
        means = [level.result.geomean[planner] for level in sweep]
        axes.plot(levels, means, "o-", ms=4, color=COLOURS[i % len(COLOURS)], label=plain(planner))
    axes.set_xticks(levels, [f"{level.levels}\n{level.accelerators:,}" for level in sweep])
    axes.tick_params(axis="x", labelsize=7)
    axes.set_xlabel("levels, accelerators")
    axes.set_title(f"{plain(array)}, {of}, batch {first.batch}")
    speedup_axis(axes)
    _legend(axes, paper=False)
    save(figure, path)


def new_figure(width: float, height: float, rows: int, columns: int) -> tuple[Figure, list[Axes]]:
    """A figure that needs no screen, and its panels row by row; sizes in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def write_above(axes: Axes, place: float, top: float, text: str) -> None:
    """A bar's value, upright above it."""
    axes.annotate(
        text,
        (place, top),
        (0, 3),
        textcoords="offset points",
        ha="center",
        rotation=90,
        fontsize=6,
    )


def save(figure: Figure, path: str) -> None:
    """Write a figure whole, in the format its name ends in."""
    with whole_file(path) as target:
        figure.savefig(target, dpi=150)


def plain(name: str) -> str:
    """A name from somebody's file as text, not as matplotlib's mathematics."""
    return name.replace("$", r"\$")


def speedup_axis(axes: Axes) -> None:
    """A logarithmic axis that reads 1, 2, 5, 10."""
    from matplotlib.ticker import LogLocator, NullLocator

    axes.set_yscale("log")
    axes.margins(x=0.02, y=0.12)
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylabel("speedup over data parallelism")
    axes.grid(axis="y", lw=0.3)
    axes.set_axisbelow(True)


def _legend(axes: Axes, *, paper: bool) -> None:
    handles, labels = axes.get_legend_handles_labels()
    if paper:
        handles.append(next(line for line in axes.lines if line.get_linewidth() == PAPER_WIDTH))
        labels.append("the paper's average")
    axes.legend(handles, labels, ncols=len(labels), fontsize=8, frameon=False, loc="upper right")
