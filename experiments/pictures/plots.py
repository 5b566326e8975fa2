"""Pictures of comparisons, sweeps, combinations of axes, designs and training runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import cycle
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.output import UsageError
from experiments.pictures.figures import (
    LEGEND_SIZE,
    MARGINS,
    TITLE_SIZE,
    Height,
    colours,
    columns,
    finish,
    grouped_bars,
    name_axes,
    panels,
    plain,
    readable_log,
    shortened,
    speedup_axis,
    titled,
    wrapped,
)
from experiments.pictures.gantt import time_unit
from experiments.pictures.palette import SERIES
from experiments.studies.comparison import Level
from experiments.studies.options import Axis
from experiments.studies.speedups import BASELINE, Comparison
from experiments.studies.step_numbers import WORDS
from experiments.studies.sweep import Crossover, Grid
from experiments.studies.training.run import Trained
from simulator import PICOSECONDS

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.colors import Normalize
    from matplotlib.figure import Figure


def plot_speedups(result: Comparison) -> Figure:
    """Grouped bars for each network and the geometric mean; the paper's averages as marks.

    One below the other for each metric that was asked for: ratios, or gigabytes.
    """
    groups = [*map(plain, result.networks), "geometric\nmean"]
    figure, each = panels(2.2 + 1.0 * len(groups), 4.2 * len(result.metrics), len(result.metrics))
    for axes, metric in zip(each, result.metrics, strict=True):
        bars = {}
        scale, means = (1e9 if metric == "traffic" else 1.0), result.means(metric)
        for planner in result.planners:
            found = [*(row.metric(metric) for row in result.of(planner)), means[planner]]
            heights = [(g, one / scale) for g, one in enumerate(found) if one]
            bars[planner] = [Height(g, height, f"{height:.3g}") for g, height in heights]
            if metric == "time" and planner in result.published:
                paper = result.published[planner].speedup
                bars[planner][-1] = bars[planner][-1]._replace(paper=paper)
        grouped_bars(axes, bars)
        if not any(bars.values()):
            axes.text(0.5, 0.5, f"no {metric}", ha="center", va="center", transform=axes.transAxes)
            continue
        if metric != "traffic":
            axes.axhline(1, color="#555555", lw=0.6)
        axes.set_xticks(range(len(groups)), groups)
        speedup_axis(axes, WORDS[metric] + " [GB]" * (metric == "traffic"))
    titled(each[0], plain(result.case), "the paper's average")
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
    titled(axes, title, "")
    return figure


COLUMNS, MOST_TICKS = 3, 6
MOST_NUMBERS = 12
"""Cells a side of a heat map that has its numbers in them."""
DARK = 0.55
"""Below this part of the colour scale numbers are white."""


def plot_sweep(grid: Grid, table: pandas.DataFrame, crossed: list[Crossover]) -> Figure:
    """Speedups and seconds: along one axis for each network, or by two for each planner too."""
    axes = _drawn(grid)
    if len(axes) == 1:
        return _lines(grid, axes[0], _with_models(axes[0], table), crossed)
    return _heat_maps(grid, axes[0], axes[1], table)


def _with_models(axis: Axis, table: pandas.DataFrame) -> pandas.DataFrame:
    """Names on the axis with their execution model, where that is not the same for all."""
    models = table["execution"].astype(str).str.partition(",")[0]
    if axis.numeric or axis.key == "execution" or models.nunique() < 2:
        return table
    return table.assign(**{axis.title: table[axis.title].astype(str) + "\n" + models})


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
    if _over(table).any():
        how = "hollow" if len(_drawn(grid)) < 2 else "hatched"
        words.append(f"{how}: does not fit in memory")
    title = wrapped(plain(", ".join(words)), figure.get_figwidth() - MARGINS, TITLE_SIZE)
    figure.suptitle(title, fontsize=TITLE_SIZE)


LEAST_WIDTH = 5.0
"""Inches: less has no room for a title."""
LONGEST_NAME = 80


def _shown(table: pandas.DataFrame) -> tuple[pandas.DataFrame, dict[str, str]]:
    """What is drawn, times in the unit in which they read best, and how its axes are called.

    No speedup where data parallelism stands alone or does not fit in memory.
    """
    unit, each_ps = time_unit(int(table["iteration_s"].max() * PICOSECONDS))
    speedup = table["speedup"].where(table["baseline_fits"])
    times = table["iteration_s"] * PICOSECONDS / each_ps
    drawn = table.assign(speedup=speedup, iteration_s=times, over=_over(table))
    names = {"speedup": "speedup over data parallelism", "iteration_s": f"step time [{unit}]"}
    if set(table["planner"]) == {BASELINE} or speedup.isna().all():
        del names["speedup"]
    return drawn, names


def _over(table: pandas.DataFrame) -> pandas.Series[bool]:
    """Whether steps do not fit in memory; none where there is no memory."""
    fits = table["fits"] if "fits" in table else table["iteration_s"] >= 0
    return fits.eq(other=False)


def _lines(grid: Grid, axis: Axis, table: pandas.DataFrame, crossed: list[Crossover]) -> Figure:
    networks = list(dict.fromkeys(table["network"]))
    colour = colours(list(dict.fromkeys(table["planner"])))
    across, (drawn, shown) = min(len(networks), COLUMNS), _shown(table)
    rows, deep = -(-len(networks) // across), len(shown)
    size = max(1.2 + 3.6 * across, LEAST_WIDTH), 1.1 + 2.3 * deep * rows
    figure, every = panels(*size, deep * rows, across)
    for panel in every:
        panel.set_visible(False)
    marks: list[Any] = []
    for place, network in enumerate(networks):
        first = deep * across * (place // across) + place % across
        own = drawn[drawn["network"] == network]
        for number, (column, label) in enumerate(shown.items()):
            panel = every[first + number * across]
            panel.set_visible(True)
            _curves(panel, axis, own, column, colour)
            panel.set_ylabel(label, fontsize=8)
            panel.tick_params(axis="x", which="both", labelbottom=number == deep - 1)
        upper, lower = every[first], every[first + (deep - 1) * across]
        upper.set_xlim(lower.get_xlim())
        for cross in crossed:
            if cross.network == network and "speedup" in shown:
                marks += upper.plot(cross.value, cross.speedup, "kx", ms=7, ls="")
        name = wrapped(plain(shortened(network, LONGEST_NAME)), size[0] / across - MARGINS, 9)
        upper.set_title(name, fontsize=9)
        lower.set_xlabel(plain(axis.title), fontsize=8)
    _name(figure, grid, table)
    handles, labels = every[0].get_legend_handles_labels()
    if marks:
        handles, labels = [*handles, marks[0]], [*labels, "two planners change places"]
    _legend_below(figure, handles, labels)
    return figure


def _legend_below(figure: Figure, handles: Sequence[Any], labels: Sequence[str]) -> None:
    """What lines are, clear of them: one legend for all panels."""
    count = columns(labels, figure.get_figwidth() - MARGINS, LEGEND_SIZE)
    style: dict[str, Any] = {"loc": "outside lower center", "frameon": False}
    figure.legend(handles, labels, ncols=count, fontsize=LEGEND_SIZE, **style)


def _curves(
    panel: Axes, axis: Axis, table: pandas.DataFrame, column: str, colour: dict[str, str]
) -> None:
    """One network's line for each planner."""
    from matplotlib.ticker import EngFormatter, NullLocator

    for marker, (planner, own) in zip(cycle("os^Dv"), colour.items(), strict=False):
        rows = table[table["planner"] == planner]
        style: dict[str, Any] = {"marker": marker, "ms": 3.5, "color": own}
        panel.plot(rows[axis.title], rows[column], label=plain(planner), **style)
        if len(over := rows[rows["over"]]):
            panel.plot(over[axis.title], over[column], ls="", mfc="white", **style)
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
    """A map for each network and planner, one colour scale for all of a column of the table.

    Of each, the table has a row for every point, in the grid's order. Times' scale is logarithmic.
    """
    from matplotlib.colors import LogNorm, Normalize
    from matplotlib.patches import Rectangle

    pairs = list(dict.fromkeys(zip(table["network"], table["planner"], strict=True)))
    (told, kinds), wide = _shown(table), min(len(pairs), COLUMNS)
    deep = -(-len(pairs) // wide)
    size = max(1.2 + 3.6 * wide, LEAST_WIDTH), 1.1 + 2.9 * deep * len(kinds)
    shape = len(across.values), len(up.values)
    figure, every = panels(*size, deep * len(kinds), wide)
    for number, (column, label) in enumerate(kinds.items()):
        block = every[number * deep * wide :][: deep * wide]
        ends = float(told[column].min()), float(told[column].max())
        even = column == "speedup" or not 0 < ends[0] < ends[1]
        norm = Normalize(*ends) if even else LogNorm(*ends)
        for panel in block[len(pairs) :]:
            panel.set_visible(False)
        for (network, planner), panel in zip(pairs, block, strict=False):
            own = told[(told["network"] == network) & (told["planner"] == planner)]
            drawn, over = (own[one].to_numpy().reshape(shape).T for one in (column, "over"))
            panel.imshow(drawn, cmap="viridis", norm=norm, aspect="auto", origin="lower")
            _numbers(panel, drawn, norm)
            for y, x in np.argwhere(over.astype(float) == 1).tolist():  # it does not fit in memory
                style: dict[str, Any] = {"fill": False, "hatch": "///", "ec": "#ffffff70", "lw": 0}
                panel.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, **style))
            _name_cells(panel, across, up)
            title = plain(shortened(f"{network}, {planner}", LONGEST_NAME))
            panel.set_title(wrapped(title, size[0] / wide - MARGINS, 9), fontsize=9)
        _colour_bar(figure, block, label)
    _name(figure, grid, table)
    return figure


def _colour_bar(figure: Figure, block: Sequence[Axes], label: str) -> None:
    """One for all maps of a block, which share a scale."""
    from matplotlib.colors import LogNorm
    from matplotlib.ticker import LogLocator

    image = block[0].images[0]
    ticks = LogLocator(subs=(1, 2, 5)) if isinstance(image.norm, LogNorm) else None
    bar = figure.colorbar(image, ax=list(block), ticks=ticks, format="%g")
    bar.minorticks_off()
    bar.set_label(label, fontsize=8)
    bar.ax.tick_params(labelsize=7)


def _numbers(panel: Axes, drawn: Any, norm: Normalize) -> None:
    """Each cell's value, in a colour that can be read on it; none where there is no room."""
    if max(drawn.shape) > MOST_NUMBERS:
        return
    for (y, x), value in np.ndenumerate(drawn):
        if np.isfinite(value):
            colour = "white" if float(norm(value)) < DARK else "black"
            panel.text(x, y, f"{value:.3g}", ha="center", va="center", fontsize=7, color=colour)


def _name_cells(panel: Axes, across: Axis, up: Axis) -> None:
    for set_ticks, axis in ((panel.set_xticks, across), (panel.set_yticks, up)):
        labels = [plain(value.label) for value in axis.values]
        ticks = range(0, len(labels), max(1, len(labels) // 8))
        set_ticks(list(ticks), [labels[i] for i in ticks], fontsize=7)
    panel.tick_params(axis="x", rotation=45)
    panel.set_xlabel(plain(across.key), fontsize=8)
    panel.set_ylabel(plain(up.key), fontsize=8)


FAR = 0.3
"""Of a device's memory: where all combinations take less, its line is off the picture."""


MOST_NAMED = 4
"""Of the combinations on a front: the best so many have their names, where there is room."""


LONGEST_PLAN, PLAN_INCHES, PLAN_SIZE = 80, 2.2, 7.0
"""Characters of a line of a combination's name, the width it is broken at, and its points."""


def plot_fit(
    rows: Sequence[dict[str, Any]],
    names: Sequence[str],
    title: str,
    capacity_bytes: float | None,
) -> Figure:
    """Every combination that fits (the best first), by size of the array or tensor parallelism.

    A step line joins those that nothing with less memory beats (the Pareto front), the best of
    which are named; a dashed one stands at a device's memory, if all have as much. Raises
    UsageError where none fits.
    """
    if not rows:
        raise UsageError("--plot: no combination fits, so there is nothing to draw")
    tokens = rows[0]["tokens_per_s_each"] is not None
    key, up = (
        ("tokens_per_s_each", "tokens/s per chip") if tokens else ("samples_per_s", "samples/s")
    )
    figure, (axes,) = panels(6.4, 4.2)
    places = [(row["peak_memory_bytes"] / 2**30, row[key]) for row in rows]
    own = ["stages on kinds" if row["stage_hw"] else f"tp {row['tp']}" for row in rows]
    series = [row["size"] or name for row, name in zip(rows, own, strict=True)]
    for number, name in enumerate(sorted(set(series), key=_number_last)):
        some = [place for place, one in zip(places, series, strict=True) if one == name]
        across, rates = zip(*some, strict=True)
        axes.scatter(across, rates, s=12, color=SERIES[number % len(SERIES)], label=name)
    edge = front(places)
    axes.step(*zip(*edge, strict=True), where="post", color="#555555", lw=1, label="Pareto front")
    said = "" if capacity_bytes is None else f"memory limit: {capacity_bytes / 2**30:.4g} GiB"
    near = max(place[0] for place in places) > FAR * (capacity_bytes or math.inf) / 2**30
    if near and capacity_bytes:
        axes.axvline(capacity_bytes / 2**30, color="#555555", lw=1, ls="--", label=said)
    axes.margins(x=0.15, y=0.2)  # room for names
    (left, end), (low, high) = axes.get_xlim(), axes.get_ylim()
    named: list[Point] = []
    for place in reversed(edge):
        lines = [shortened(a, LONGEST_PLAN) for a in names[places.index(place)].splitlines()]
        name = wrapped(plain("\n".join(lines)), PLAN_INCHES, PLAN_SIZE)
        near_x, near_y = (end - left) / 2, (high - low) * (1 + name.count("\n")) / 20
        close = (abs(x - place[0]) < near_x and abs(y - place[1]) < near_y for x, y in named)
        if any(close) or len(named) == MOST_NAMED:
            continue
        named.append(place)
        right = place[0] > (left + end) / 2  # the name stays inside the frame
        axes.annotate(
            name,
            place,
            (-4 if right else 4, 4),
            textcoords="offset points",
            fontsize=PLAN_SIZE,
            bbox={"fc": "white", "alpha": 0.6, "lw": 0, "pad": 0.5},
            ha="right" if right else "left",
        )
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.6g}")
    more = "" if near or not said else f"; {said}"
    finish(axes, title, f"memory of the fullest device [GiB]{more}", up)
    return figure


def _number_last(name: str) -> tuple[int, str]:
    """Names by the number at their end: nodes=2, nodes=16."""
    digits = name[len(name.rstrip("0123456789")) :]
    return int(digits or 0), name


Point = tuple[float, float]
"""What something takes (area in mm2, memory in GiB), and its worth."""


def front(points: Sequence[Point]) -> list[Point]:
    """Those of which no other takes as little and is worth more, by what they take."""
    best: list[Point] = []
    for takes, worth in sorted(set(points), key=lambda point: (point[0], -point[1])):
        if not best or worth > best[-1][1]:
            best.append((takes, worth))
    return best


def pareto(points: Sequence[Point], base: Point, winner: Point, aim: str, title: str) -> Figure:
    """All points (estimates), the front as steps, the base design and the winner as simulated."""
    figure, (axes,) = panels(6.4, 4.2)
    areas, worths = zip(*points, strict=True)
    axes.scatter(areas, worths, s=9, color=SERIES[6], label="evaluated (estimate)")
    edge = zip(*front(points), strict=True)
    axes.step(*edge, where="post", color=SERIES[0], lw=1.5, label="Pareto front (estimate)")
    axes.plot(*base, "ks", ms=6, label="base design")
    label = f"winner, simulated: {winner[1]:.3f}"
    axes.plot(*winner, "*", ms=13, color=SERIES[5], label=label)
    up = f"{aim.replace('-', ' ')} over the base design"
    finish(axes, title, "area of a chip [mm²]", up)
    return figure


WIDTH, HEIGHT = 5.2, 4.0
MOST_LINES = 64
"""Workers whose progress is drawn: of more, evenly chosen ones."""
MOST_POINTS = 500
SLOW, NAMED = 0.9, 4
"""Of the median worker's rate: below that a worker is named, of several as many."""


def plot_training(found: Sequence[Trained]) -> Figure:
    """Iterations done against time, a line for each worker; with learning, loss beside it."""
    asked, learns = found[0].asked, found[0].learned is not None
    width = WIDTH * (2 if learns else 1.4)
    figure, axes = panels(width, HEIGHT, 1, 2 if learns else 1)
    slowdown = f"slowdown {', '.join(asked.slowdowns)}" if asked.slowdowns else "no slowdown"
    title = f"{asked.network.name}, {asked.workers} workers on {asked.array.name}, {slowdown}"
    figure.suptitle(wrapped(plain(title), width, TITLE_SIZE), fontsize=TITLE_SIZE)
    for number, one in enumerate(found):
        style: dict[str, Any] = {"color": SERIES[number % len(SERIES)]}
        if number >= len(SERIES):  # the colours begin anew
            style |= {"marker": "o", "ms": 3, "markevery": 0.1}
        label = plain(shortened(one.asked.method, 40))
        slow = slow_workers(one)
        whose = f"worker{'s' * (len(slow) > 1)} {', '.join(map(str, slow))}"
        named = f"{label}, dashed: {whose}" if slow else label
        _progress(axes[0], one, style, named, slow)
        if learns:
            axes[1].plot(*zip(*one.curve, strict=True), lw=1.0, label=label, **style)
    names = ("iterations done, each worker", f"loss of the mean model, {asked.learn}")
    for panel, name in zip(axes, names, strict=False):
        name_axes(panel, "simulated time [s]", name)
        panel.set_xlim(left=0)
    _legend_below(figure, *axes[0].get_legend_handles_labels())
    axes[0].set_ylim(bottom=0)
    axes[0].locator_params("y", integer=True)
    if learns:
        readable_log(axes[1])
    return figure


def _progress(
    axes: Axes, one: Trained, style: dict[str, Any], name: str, slow: Sequence[int]
) -> None:
    many = len(one.run.ends)
    few = min(many, MOST_LINES - len(slow) * (many > MOST_LINES))
    workers = np.unique([*np.linspace(0, many - 1, few).astype(int).tolist(), *slow])
    first = next(w for w in workers.tolist() if w not in slow)
    for w in workers.tolist():
        times = np.concatenate([[0.0], np.asarray(one.run.ends[w]) / 1e12])
        some = np.unique(np.linspace(0, len(times) - 1, MOST_POINTS).astype(int))
        label = name if w == first else None
        dashes = "--" if w in slow else "-"
        axes.plot(times[some], some, dashes, lw=0.8, alpha=0.8, label=label, **style)


def slow_workers(one: Trained) -> list[int]:
    """The workers whose rate is well below the median one's, the slowest first; at most NAMED."""
    rates = np.asarray(one.each_per_s)
    few = [
        w for w in np.argsort(rates, kind="stable").tolist() if rates[w] < SLOW * np.median(rates)
    ]
    return few[:NAMED]
