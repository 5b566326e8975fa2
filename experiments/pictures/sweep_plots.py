"""Pictures of sweeps: a line for each planner, or a heat map for two varied values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.output import UsageError
from experiments.pictures.colours import colours
from experiments.pictures.figures import (
    LEGEND_SIZE,
    MARGINS,
    TITLE_SIZE,
    columns,
    panels,
    plain,
    readable_log,
    wrapped,
)

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from experiments.studies.sweep import Crossover, Grid
    from experiments.studies.vary import Axis

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


def _panels(count: int, columns: int) -> tuple[Figure, list[Axes]]:
    rows = -(-count // columns)
    size = 1.2 + 3.6 * columns, 1.1 + 2.9 * rows
    figure, every = panels(*size, rows, columns)
    for panel in every[count:]:
        panel.set_visible(False)
    return figure, every


def _title(grid: Grid, table: pandas.DataFrame) -> str:
    """Array, batch and execution model, as far as they are the same everywhere."""
    varied = {axis.key for axis in grid.axes if len(axis.values) > 1}
    words = []
    for key in ("array", "batch", "execution"):
        values = list(dict.fromkeys(table[key]))
        if key not in varied and len(values) == 1:
            words.append(f"batch {values[0]}" if key == "batch" else str(values[0]))
    return plain(", ".join(words))


def _name(figure: Figure, grid: Grid, table: pandas.DataFrame) -> None:
    title = wrapped(_title(grid, table), figure.get_figwidth() - MARGINS, TITLE_SIZE)
    figure.suptitle(title, fontsize=TITLE_SIZE)


def _lines(grid: Grid, axis: Axis, table: pandas.DataFrame, crossed: list[Crossover]) -> Figure:
    networks = list(dict.fromkeys(table["network"]))
    colour = colours(list(dict.fromkeys(table["planner"])))
    across = min(len(networks), COLUMNS)
    rows = -(-len(networks) // across)
    figure, every = panels(1.2 + 3.6 * across, 1.1 + 4.6 * rows, 2 * rows, across)
    for place in range(across * rows):
        first = 2 * across * (place // across) + place % across
        two = every[first], every[first + across]
        if place >= len(networks):
            for panel in two:
                panel.set_visible(False)
            continue
        network = networks[place]
        own = table[table["network"] == network]
        for panel, (column, label) in zip(two, SHOWN.items(), strict=True):
            _curves(panel, axis, own, column, colour)
            panel.set_ylabel(label, fontsize=8)
        for cross in crossed:
            if cross.network == network:
                two[0].plot(cross.value, cross.speedup, "kx", ms=7)
        two[0].set_title(plain(network), fontsize=9)
        two[0].tick_params(axis="x", which="both", labelbottom=False)
        two[1].set_xlabel(plain(axis.title), fontsize=8)
    _name(figure, grid, table)
    handles, labels = every[0].get_legend_handles_labels()
    count = columns(labels, figure.get_figwidth() - MARGINS, LEGEND_SIZE)
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=count,
        frameon=False,
        fontsize=LEGEND_SIZE,
    )
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
    figure, every = _panels(2 * len(pairs), 2 if len(pairs) == 1 else 4)
    shown = [(*pair, column) for pair in pairs for column in SHOWN]
    for (network, planner, column), panel in zip(shown, every, strict=False):
        rows = table[(table["network"] == network) & (table["planner"] == planner)]
        values = rows.pivot(index=up.title, columns=across.title, values=column)
        values = values.reindex(index=_order(up), columns=_order(across))
        scale = "linear" if column == "speedup" else "log"
        drawn = values.to_numpy()
        image = panel.imshow(drawn, cmap="viridis", norm=scale, aspect="auto", origin="lower")
        figure.colorbar(image, ax=panel).ax.tick_params(labelsize=7)
        for which, axis in (("x", across), ("y", up)):
            labels = [plain(value.label) for value in axis.values]
            ticks = range(0, len(labels), max(1, len(labels) // 8))
            set_ticks = panel.set_xticks if which == "x" else panel.set_yticks
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
