"""Pictures of comparisons, sweeps, combinations of axes, designs and training runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.output import UsageError
from experiments.pictures.figures import (
    COLOURS,
    LEGEND_SIZE,
    MARGINS,
    PAPER_WIDTH,
    TITLE_SIZE,
    colours,
    columns,
    finish,
    legend_below_title,
    name_axes,
    panels,
    plain,
    readable_log,
    shortened,
    speedup_axis,
    wrapped,
    write_value,
)

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from experiments.studies.comparison import Level
    from experiments.studies.options import Axis
    from experiments.studies.speedups import Comparison
    from experiments.studies.sweep import Crossover, Grid
    from experiments.studies.training.run import Trained


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


COLUMNS, MOST_TICKS = 3, 6
SHOWN = {"speedup": "speedup over data parallelism", "iteration_s": "seconds a step"}
"""Columns of the table that are drawn, with the names of their axes."""


def plot_sweep(grid: Grid, table: pandas.DataFrame, crossed: list[Crossover]) -> Figure:
    """Speedups and seconds: along one axis for each network, or by two for each planner too."""
    axes = _drawn(grid)
    if len(axes) == 1:
        return _lines(grid, axes[0], table, crossed)
    return _heat_maps(grid, axes[0], axes[1], table)


def check_drawable(grid: Grid) -> None:
    """Raise UsageError, before any run, where a picture cannot show so many varied keys."""
    if len(_drawn(grid)) > 2:
        raise UsageError("--plot draws one or two varied keys; the table has them all")


def _drawn(grid: Grid) -> list[Axis]:
    return [axis for axis in grid.axes if len(axis.values) > 1] or list(grid.axes[:1])


def _name(figure: Figure, grid: Grid, table: pandas.DataFrame) -> None:
    """Array, batch and execution model, as far as they are the same everywhere, as the title."""
    varied = {axis.key for axis in grid.axes if len(axis.values) > 1}
    words = []
    for key in ("array", "batch", "execution"):
        values = list(dict.fromkeys(table[key]))
        if key not in varied and len(values) == 1:
            words.append(f"batch {values[0]}" if key == "batch" else str(values[0]))
    title = wrapped(plain(", ".join(words)), figure.get_figwidth() - MARGINS, TITLE_SIZE)
    figure.suptitle(title, fontsize=TITLE_SIZE)


def _lines(grid: Grid, axis: Axis, table: pandas.DataFrame, crossed: list[Crossover]) -> Figure:
    networks = list(dict.fromkeys(table["network"]))
    colour = colours(list(dict.fromkeys(table["planner"])))
    across = min(len(networks), COLUMNS)
    rows = -(-len(networks) // across)
    figure, every = panels(1.2 + 3.6 * across, 1.1 + 4.6 * rows, 2 * rows, across)
    for panel in every:
        panel.set_visible(False)
    for place, network in enumerate(networks):
        first = 2 * across * (place // across) + place % across
        upper, lower = every[first], every[first + across]
        own = table[table["network"] == network]
        for panel, (column, label) in zip((upper, lower), SHOWN.items(), strict=True):
            panel.set_visible(True)
            _curves(panel, axis, own, column, colour)
            panel.set_ylabel(label, fontsize=8)
        for cross in crossed:
            if cross.network == network:
                upper.plot(cross.value, cross.speedup, "kx", ms=7)
        upper.set_title(plain(network), fontsize=9)
        upper.tick_params(axis="x", which="both", labelbottom=False)
        lower.set_xlabel(plain(axis.title), fontsize=8)
    _name(figure, grid, table)
    handles, labels = every[0].get_legend_handles_labels()
    count = columns(labels, figure.get_figwidth() - MARGINS, LEGEND_SIZE)
    style: dict[str, Any] = {
        "loc": "outside lower center",
        "frameon": False,
        "fontsize": LEGEND_SIZE,
    }
    figure.legend(handles, labels, ncols=count, **style)
    return figure


def _curves(
    panel: Axes, axis: Axis, table: pandas.DataFrame, column: str, colour: dict[str, str]
) -> None:
    """One network's line for each planner."""
    from matplotlib.ticker import EngFormatter, NullLocator

    for planner, own in colour.items():
        rows = table[table["planner"] == planner]
        panel.plot(rows[axis.title], rows[column], "o-", ms=3, color=own, label=plain(planner))
    readable_log(panel)
    panel.tick_params(which="both", labelsize=7)
    if axis.logarithmic:
        panel.set_xscale("log")
    if len(axis.values) <= MOST_TICKS and axis.numeric:
        panel.xaxis.set_minor_locator(NullLocator())
        numbers = [value.number for value in axis.values if value.number is not None]
        panel.set_xticks(numbers, [plain(value.label) for value in axis.values])
    elif axis.unit:
        panel.xaxis.set_major_formatter(EngFormatter(axis.unit))
    panel.grid(which="major", lw=0.3)


def _heat_maps(grid: Grid, across: Axis, up: Axis, table: pandas.DataFrame) -> Figure:
    pairs = list(dict.fromkeys(zip(table["network"], table["planner"], strict=True)))
    columns = 2 if len(pairs) == 1 else 4
    rows = -(-2 * len(pairs) // columns)
    figure, every = panels(1.2 + 3.6 * columns, 1.1 + 2.9 * rows, rows, columns)
    for panel in every[2 * len(pairs) :]:
        panel.set_visible(False)
    shown = [(*pair, column) for pair in pairs for column in SHOWN]
    for (network, planner, column), panel in zip(shown, every, strict=False):
        own = table[(table["network"] == network) & (table["planner"] == planner)]
        values = own.pivot(index=up.title, columns=across.title, values=column)
        values = values.reindex(index=_order(up), columns=_order(across))
        scale = "linear" if column == "speedup" else "log"
        drawn = values.to_numpy()
        image = panel.imshow(drawn, cmap="viridis", norm=scale, aspect="auto", origin="lower")
        figure.colorbar(image, ax=panel).ax.tick_params(labelsize=7)
        for set_ticks, axis in ((panel.set_xticks, across), (panel.set_yticks, up)):
            labels = [plain(value.label) for value in axis.values]
            ticks = range(0, len(labels), max(1, len(labels) // 8))
            set_ticks(list(ticks), [labels[i] for i in ticks], fontsize=7)
        panel.tick_params(axis="x", rotation=45)
        what = "speedup" if column == "speedup" else "seconds"
        panel.set_title(plain(f"{network}, {planner}: {what}"), fontsize=9)
        panel.set_xlabel(plain(across.key), fontsize=8)
        panel.set_ylabel(plain(up.key), fontsize=8)
    _name(figure, grid, table)
    return figure


def _order(axis: Axis) -> list[float | str | None]:
    return [value.number if axis.numeric else value.label for value in axis.values]


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
    axes.set_ylim(0, 1.1 * best["samples_per_s"])  # room for the name of the best
    finish(axes, title, "memory of the fullest device [GiB]", "samples a second")
    return figure


Point = tuple[float, float]
"""Area (mm2) and worth."""


def front(points: Sequence[Point]) -> list[Point]:
    """Those of which no other has as little area and is worth more, by area."""
    best: list[Point] = []
    for area, worth in sorted(set(points), key=lambda point: (point[0], -point[1])):
        if not best or worth > best[-1][1]:
            best.append((area, worth))
    return best


def pareto(points: Sequence[Point], base: Point, winner: Point, aim: str, title: str) -> Figure:
    """All points, the front as steps, the base design and the winner (its estimate)."""
    figure, (axes,) = panels(6.4, 4.2)
    areas, worths = zip(*points, strict=True)
    axes.scatter(areas, worths, s=9, color="#bbbbbb", label="evaluated")
    edge = zip(*front(points), strict=True)
    axes.step(*edge, where="post", color="#4477aa", lw=1.5, label="Pareto front")
    axes.plot(*base, "ks", ms=6, label="base design")
    axes.plot(*winner, "*", ms=13, color="#aa3377", label="winner")
    up = f"{aim.replace('-', ' ')} over the base design"
    finish(axes, title, "area of a chip [mm2]", up)
    return figure


WIDTH, HEIGHT = 5.2, 4.0
MOST_LINES = 64
"""Workers whose progress is drawn: of more, evenly chosen ones."""
MOST_POINTS = 500


def plot_training(found: Sequence[Trained]) -> Figure:
    """Iterations done against time, a line for each worker; with learning, loss beside it."""
    asked, learns = found[0].asked, found[0].learned is not None
    width = WIDTH * (2 if learns else 1.4)
    figure, axes = panels(width, HEIGHT, 1, 2 if learns else 1)
    slow = ", ".join(asked.slowdowns) or "no slowdown"
    title = f"{asked.network.name}, {asked.workers} workers on {asked.array.name}, {slow}"
    figure.suptitle(wrapped(plain(title), width, TITLE_SIZE), fontsize=TITLE_SIZE)
    for number, one in enumerate(found):
        colour = COLOURS[number % len(COLOURS)]
        label = plain(shortened(one.asked.method, 40))
        _progress(axes[0], one, colour, label)
        if learns:
            axes[1].plot(*zip(*one.curve, strict=True), color=colour, lw=1.0, label=label)
    names = ("iterations done, each worker", f"loss of the mean model, {asked.learn}")
    for panel, name in zip(axes, names, strict=False):
        name_axes(panel, "simulated time [s]", name)
        panel.set_xlim(left=0)
        panel.legend(fontsize=LEGEND_SIZE, frameon=False)
    axes[0].set_ylim(bottom=0)
    if learns:
        readable_log(axes[1])
    return figure


def _progress(axes: Axes, one: Trained, colour: str, name: str) -> None:
    workers = np.unique(np.linspace(0, len(one.run.ends) - 1, MOST_LINES).astype(int))
    for number, w in enumerate(workers.tolist()):
        times = np.concatenate([[0.0], np.asarray(one.run.ends[w]) / 1e12])
        some = np.unique(np.linspace(0, len(times) - 1, MOST_POINTS).astype(int))
        label = None if number else name
        axes.plot(times[some], some, color=colour, lw=0.7, alpha=0.8, label=label)
