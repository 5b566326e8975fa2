"""Predicted against measured seconds, both axes logarithmic."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.measured.errors import Outcome, counted
from experiments.output import UsageError
from experiments.pictures.figures import COLOURS, panels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WITHIN = 0.2
"""How far the grey band reaches on either side."""


def plot(outcomes: Sequence[Outcome]) -> Figure:
    """A dot or square for each row in the statistics; mixtures of experts are crosses.

    Raises UsageError where there is none.
    """
    known = counted(outcomes)
    if not known:
        raise UsageError("--plot: no row can be compared")
    figure, (axes,) = panels(6.4, 5.6)
    chips = list(dict.fromkeys(one.row.hw for one in known))
    for number, chip in enumerate(chips):
        again = number // len(COLOURS) % 2  # the second chip of a colour has squares
        for dense, marker in ((True, "os"[again]), (False, "x+"[again])):
            own = [one for one in known if one.row.hw == chip and one.row.dense is dense]
            axes.plot(
                [one.row.step_s or 0.0 for one in own],
                [one.predicted_s or 0.0 for one in own],
                marker,
                ms=3.5,
                mew=0.9,
                color=COLOURS[number % len(COLOURS)],
                alpha=0.75,
                label=chip if dense else None,
                linestyle="none",
            )
    both = [s for one in known for s in (one.row.step_s, one.predicted_s) if s]
    low, high = min(both) / 1.3, max(both) * 1.3
    axes.fill_between(
        [low, high],
        [low * (1 - WITHIN), high * (1 - WITHIN)],
        [low * (1 + WITHIN), high * (1 + WITHIN)],
        color="#eeeeee",
        lw=0,
        zorder=0,
    )
    axes.plot([low, high], [low, high], color="#777777", lw=0.7, zorder=1)
    axes.set(xscale="log", yscale="log", xlim=(low, high), ylim=(low, high))
    axes.set_xlabel("measured step [s]")
    axes.set_ylabel("predicted step [s]")
    axes.set_title(f"{len(known)} measured steps; grey: within {WITHIN:.0%}; crosses: experts")
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=7, fontsize=7
    )
    return figure
