"""Pictures of sweeps: a line for each planner, or a heat map for two varied values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.output import UsageError
from experiments.pictures.figures import COLOURS, panels, plain

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from experiments.studies.sweep import Crossover, Grid
    from experiments.studies.vary import Axis

COLUMNS = 3


def plot_sweep(grid: Grid, table: pandas.DataFrame, crossed: list[Crossover]) -> Figure:
    """One axis: a panel for each network; two: a panel for each network and planner."""
    axes = _drawn(grid)
    if len(axes) == 1:
        return _lines(axes[0], table, crossed)
    return _heat_maps(axes[0], axes[1], table)


def check_drawable(grid: Grid) -> None:
    """Raise UsageError, before any run, where a picture cannot show so many varied keys."""
    if len(_drawn(grid)) > 2:
        raise UsageError("--plot draws one or two varied keys; the table has them all")


def _drawn(grid: Grid) -> list[Axis]:
    return [axis for axis in grid.axes if len(axis.values) > 1] or list(grid.axes[:1])


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    columns = min(count, COLUMNS)
    rows = -(-count // columns)
    figure, every = panels(1.2 + 3.6 * columns, 0.8 + 2.9 * rows, rows, columns)
    for panel in every[count:]:
        panel.set_visible(False)
    return figure, every


def _lines(axis: Axis, table: pandas.DataFrame, crossed: list[Crossover]) -> Figure:
    from matplotlib.ticker import EngFormatter

    networks = list(dict.fromkeys(table["network"]))
    planners = list(dict.fromkeys(table["planner"]))
    figure, every = _panels(len(networks))
    for network, panel in zip(networks, every, strict=False):
        for i, planner in enumerate(planners):
            rows = table[(table["network"] == network) & (table["planner"] == planner)]
            colour = COLOURS[i % len(COLOURS)]
            panel.plot(
                rows[axis.title], rows["speedup"], "o-", ms=3, color=colour, label=plain(planner)
            )
        for cross in crossed:
            if cross.network == network:
                panel.plot(cross.value, cross.speedup, "kx", ms=7)
        panel.set_title(plain(network), fontsize=9)
        panel.set_yscale("log")
        panel.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        panel.yaxis.set_minor_formatter(lambda value, _: f"{value:g}")
        panel.tick_params(which="both", labelsize=7)
        if axis.logarithmic:
            panel.set_xscale("log")
        if axis.unit:
            panel.xaxis.set_major_formatter(EngFormatter(axis.unit))
        panel.grid(which="major", lw=0.3)
        panel.set_xlabel(plain(axis.title), fontsize=8)
        panel.set_ylabel("speedup over data parallelism", fontsize=8)
    handles, labels = every[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False)
    return figure


def _heat_maps(across: Axis, up: Axis, table: pandas.DataFrame) -> Figure:
    pairs = list(dict.fromkeys(zip(table["network"], table["planner"], strict=True)))
    figure, every = _panels(len(pairs))
    for (network, planner), panel in zip(pairs, every, strict=False):
        rows = table[(table["network"] == network) & (table["planner"] == planner)]
        values = rows.pivot(index=up.title, columns=across.title, values="speedup")
        values = values.reindex(index=_order(up), columns=_order(across))
        image = panel.imshow(values.to_numpy(), origin="lower", aspect="auto", cmap="viridis")
        figure.colorbar(image, ax=panel).ax.tick_params(labelsize=7)
        for which, axis in (("x", across), ("y", up)):
            labels = [plain(value.label) for value in axis.values]
            ticks = range(0, len(labels), max(1, len(labels) // 8))
            set_ticks = panel.set_xticks if which == "x" else panel.set_yticks
            set_ticks(list(ticks), [labels[i] for i in ticks], fontsize=7)
        panel.tick_params(axis="x", rotation=45)
        panel.set_title(plain(f"{network}, {planner}: speedup"), fontsize=9)
        panel.set_xlabel(plain(across.key), fontsize=8)
        panel.set_ylabel(plain(up.key), fontsize=8)
    return figure


def _order(axis: Axis) -> list[float | str | None]:
    return [value.number if axis.numeric else value.label for value in axis.values]
