"""Pictures of reproduced figures: bars, lines, plan maps and heat maps, one file each."""

from __future__ import annotations

import os
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

from experiments.output import UsageError
from experiments.papers.figure import Figure, Row
from experiments.pictures.figures import (
    PAPERS,
    Height,
    colours,
    grouped_bars,
    panels,
    readable_log,
    titled,
)
from experiments.pictures.palette import TYPES as TYPE_COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Picture

TYPES = ("I", "II", "III")


def check_folder(folder: str) -> None:
    """Make the folder if need be; raises UsageError where nothing can be written there."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        raise UsageError(f"--plot {folder!r}: not a folder that can be made: {error}") from None
    if not os.access(folder, os.W_OK):
        raise UsageError(f"--plot {folder!r}: permission denied")


LONGEST = 14
"""Letters of a line below a bar: more would reach the next bar's."""


def plot_figure(figure: Figure) -> Picture:
    """A figure in the shape that suits its rows."""
    draw = {"bars": _bars, "lines": _lines, "plans": _plans, "map": _map}
    return draw[figure.shape](figure)


def _bars(figure: Figure) -> Picture:
    """Grouped bars on a logarithmic axis; the paper's values as marks across them."""
    groups = list(dict.fromkeys(row[figure.axes[0]] for row in figure.rows))
    picture, (axes,) = panels(2.2 + 0.9 * len(groups), 4.2)
    bars: dict[str, list[Height]] = {planner: [] for planner in figure.planners}
    for row in figure.rows:
        ours, group = row["ours"], groups.index(row[figure.axes[0]])
        text = f"{ours:,.0f}" if 1000 <= ours < 1e6 else f"{ours:.3g}".replace("e+", "e")
        bars[row["planner"]].append(Height(group, ours, text, row["published"]))
    grouped_bars(axes, bars)
    names = [str(group).replace(", ", "\n").replace("Gmean", "geometric\nmean") for group in groups]
    names = ["\n".join(fill(line, LONGEST) for line in name.splitlines()) for name in names]
    axes.set_xticks(range(len(groups)), names, fontsize=8)
    if "[" not in figure.label:  # a ratio
        axes.axhline(1, color="#555555", lw=0.6)
    _finish(axes, figure)
    return picture


def _lines(figure: Figure) -> Picture:
    """A line for each planner along a number; the paper's values as crosses."""
    (axis,) = figure.axes
    picture, (axes,) = panels(6.4, 4.2)
    for planner, colour in colours(figure.planners).items():
        rows = [row for row in figure.rows if row["planner"] == planner]
        heights = [r["ours"] for r in rows]
        axes.plot([r[axis] for r in rows], heights, "o-", ms=4, color=colour)
        axes.lines[-1].set_label(planner)
        theirs = [row for row in rows if row["published"] is not None]
        axes.plot(
            [r[axis] for r in theirs],
            [r["published"] for r in theirs],
            "kx",
            ms=7,
            label=PAPERS,
        )
    places = list(dict.fromkeys(row[axis] for row in figure.rows))
    if axis == "accelerators":
        axes.set_xscale("log", base=2)
    axes.set_xticks(places, [str(place) for place in places])
    axes.set_xlabel(axis)
    _finish(axes, figure)
    return picture


def _finish(axes: Axes, figure: Figure) -> None:
    """Title, a logarithmic axis with plain numbers, and the legend."""
    axes.set_yscale("log")
    axes.margins(x=0.02, y=0.16)
    readable_log(axes)
    axes.set_ylabel(figure.label, fontsize=8)
    axes.grid(axis="y", lw=0.3)
    axes.set_axisbelow(True)
    titled(axes, "\n".join(filter(None, [figure.title, figure.case])), "the paper's")


def _plans(figure: Figure) -> Picture:
    """A panel a network: levels down, layers across, a colour for each type."""
    from matplotlib.patches import Patch

    columns = min(2, len(figure.rows))
    rows = -(-len(figure.rows) // columns)
    height = max(len(row["levels"]) for row in figure.rows)
    picture, every = panels(4.6 * columns, 0.7 + rows * (0.55 + 0.2 * height), rows, columns)
    for panel, row in zip(every, figure.rows, strict=False):
        _plan(panel, row)
    for panel in every[len(figure.rows) :]:
        panel.set_visible(False)
    used = {int(digit) for row in figure.rows for level in row["levels"] for digit in level}
    handles = [Patch(color=TYPE_COLOURS[TYPES[i]], label=f"type {TYPES[i]}") for i in sorted(used)]
    picture.legend(handles=handles, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    words = filter(None, [figure.title.partition(",")[0], figure.case])
    picture.suptitle(", ".join(words), fontsize=9)
    return picture


def _plan(panel: Axes, row: Row) -> None:
    from matplotlib.patches import Rectangle

    levels, theirs = row["levels"], row["published"]
    for y, level in enumerate(levels):
        for x, digit in enumerate(level):
            panel.add_patch(
                Rectangle((x, y), 1, 1, fc=TYPE_COLOURS[TYPES[int(digit)]], ec="white", lw=0.6)
            )
            if theirs is not None and theirs[y][x] != digit:
                panel.plot([x, x + 1], [y, y + 1], "k-", lw=1)
    panel.set_xlim(0, len(levels[0]))
    panel.set_ylim(len(levels), 0)
    names = [f"H{y + 1}" for y in range(len(levels))]
    panel.set_yticks([y + 0.5 for y in range(len(levels))], names)
    panel.set_xticks([x + 0.5 for x in range(len(levels[0]))], [])
    panel.tick_params(length=0, labelsize=7)
    panel.spines[:].set_visible(False)
    words = {None: "no published plan at hand", True: "as published", False: "not as published"}
    panel.set_title(f"{row['network']} ({words[row['same']]})", fontsize=8, loc="left")


def _map(figure: Figure) -> Picture:
    """A heat map over the two coordinates; the planner's own point is framed."""
    from matplotlib.patches import Rectangle

    across, up = figure.axes
    firsts = sorted({row[across] for row in figure.rows})
    seconds = sorted({row[up] for row in figure.rows})
    heights = [[0.0] * len(firsts) for _ in seconds]
    picture, (axes,) = panels(6.8, 5.6)
    for row in figure.rows:
        x, y = firsts.index(row[across]), seconds.index(row[up])
        heights[y][x] = row["ours"]
        if row["hypar"]:
            axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, ec="red", lw=1.6))
    image = axes.imshow(heights, origin="lower", cmap="viridis")
    picture.colorbar(image, ax=axes, label=figure.label)
    axes.set_xticks(range(len(firsts)), firsts, rotation=90, fontsize=7)
    axes.set_yticks(range(len(seconds)), seconds, fontsize=7)
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    words = [f"{figure.title.partition(',')[0]} (HyPar's plan framed)", figure.case]
    axes.set_title("\n".join(filter(None, words)), fontsize=10)
    return picture
