"""Pictures of results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from experiments.output import UsageError, whole_file

if TYPE_CHECKING:
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
        bars = axes.bar(
            places, heights, width * 0.92, color=COLOURS[i % len(COLOURS)], label=planner
        )
        axes.bar_label(bars, [f"{h:.3g}" for h in heights], fontsize=6, rotation=90, padding=2)
        if planner in result.published:
            paper = result.published[planner].speedup
            label = "the paper's average" if i == len(planners) - 1 else None
            axes.plot(
                [places[-1] - width / 2, places[-1] + width / 2],
                [paper] * 2,
                "k-",
                lw=2,
                label=label,
            )
    axes.axhline(1, color="#555555", lw=0.6)
    axes.set_yscale("log")
    axes.margins(x=0.02, y=0.12)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.yaxis.set_minor_formatter("")
    axes.set_xticks(range(len(groups)), groups)
    axes.set_ylabel("speedup over data parallelism")
    axes.set_title(f"{result.array}, batch {result.batch}")
    axes.grid(axis="y", lw=0.3)
    axes.set_axisbelow(True)
    axes.legend(ncols=len(planners) + 1, fontsize=8, frameon=False, loc="upper right")
    with whole_file(path) as target:
        figure.savefig(target, dpi=150)
    pyplot.close(figure)
