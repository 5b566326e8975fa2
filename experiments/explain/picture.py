"""A picture of an explanation: the critical path, and what layers keep cores waiting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.explain.paths import Part, bounds_of
from experiments.explain.study import Explanation
from experiments.pictures.figures import MARGINS, legend_below_title, panels, plain, shortened
from experiments.pictures.gantt import part_thousands, time_said, time_unit
from experiments.pictures.palette import BOUNDS, SPENT
from experiments.terms import BOUNDS as WORDS
from experiments.terms import SHARES
from simulator import PICOSECONDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LAYERS, WIDTH = 15, 9.0
LONGEST_NAME = 36


def plot_explanation(result: Explanation) -> Figure:
    """The path as a strip through the step; below it, an average core's time by layer."""
    shown = _rows(result)
    rows = len(shown)
    figure, (strip, layers) = panels(WIDTH, 2.6 + 0.25 * rows, 2, 1)
    if grid := strip.get_gridspec():
        grid.set_height_ratios([1, 0.6 + 0.3 * rows])
    _draw_path(strip, result)
    _draw_layers(layers, result, shown)
    return figure


def _rows(result: Explanation) -> list[tuple[str, Part]]:
    """The largest layers, each place of a repeated block as one."""
    found = []
    for block in result.blocks:
        found += [] if block.parts else [(block.name, block)]
        for part in block.parts:
            to = "to " if part.name.startswith("to ") else ""
            found.append((f"{to}{block.name}{part.name.removeprefix(to)} ({block.count} x)", part))
    found.sort(key=lambda row: -row[1].computing_ps - row[1].exposed_ps - row[1].waiting_ps)
    return found[:MOST_LAYERS]


def _draw_path(axes: Axes, result: Explanation) -> None:
    """Every segment at its time, by what it goes to; parts of one segment one after another."""
    unit, each_ps = time_unit(round(result.iteration_s * PICOSECONDS))
    spans: dict[str, list[tuple[float, float]]] = {bound: [] for bound in BOUNDS}
    for segment in result.paths.path:
        at = segment.start_ps
        for bound, ps in bounds_of(segment).items():
            if ps:
                spans[bound].append((at / each_ps, ps / each_ps))
            at += ps
    for bound, parts in spans.items():
        if parts:
            share = result.paths.share(result.paths.by_bound()[bound])
            colour = BOUNDS[bound]
            axes.broken_barh(parts, (0, 1), color=colour, lw=0, label=f"{WORDS[bound]} {share:.1%}")
    axes.set_xlim(0, result.iteration_s * PICOSECONDS / each_ps)
    part_thousands(axes)
    axes.set_yticks([])
    axes.set_xlabel(f"critical path: time in the step [{unit}]", fontsize=8)
    axes.tick_params(labelsize=7)
    title = f"{plain(str(result.case))}: {time_said(result.iteration_s)}"
    legend_below_title(axes, title, *axes.get_legend_handles_labels(), WIDTH - MARGINS)


def _draw_layers(axes: Axes, result: Explanation, shown: list[tuple[str, Part]]) -> None:
    rows, (unit, each_ps) = len(shown), time_unit(round(result.iteration_s * PICOSECONDS))
    left = [0.0] * rows
    for name, colour in SPENT.items():
        seconds = [result.paths.seconds(getattr(spent, f"{name}_ps")) for _, spent in shown]
        widths = [one * PICOSECONDS / each_ps for one in seconds]
        axes.barh(range(rows), widths, 0.8, left=left, color=colour, label=SHARES[name])
        left = [a + b for a, b in zip(left, widths, strict=True)]
    names = [plain(shortened(name, LONGEST_NAME)) for name, _ in shown]
    axes.set_yticks(range(rows), names, fontsize=7)
    axes.set_ylim(rows - 0.4, -0.6)
    axes.set_xlim(0, 1.03 * max(left, default=0.0) or None)
    part_thousands(axes)
    axes.tick_params(axis="x", labelsize=7)
    what = "time of a mean core by layer, or by redistribution between two layers"
    axes.set_xlabel(f"{what} [{unit}]", fontsize=8)
    axes.legend(ncols=3, fontsize=7, frameon=False, loc="lower left", bbox_to_anchor=(-0.01, 1.0))
