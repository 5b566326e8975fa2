"""Errors of the predictions, row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from experiments.output import UsageError
from experiments.pictures.figures import COLOURS, panels, plain
from experiments.validate.measured import Validation

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 60


def check_drawable(rows: int) -> None:
    """Raise UsageError when there are more rows than a picture can hold."""
    if rows > MOST_ROWS:
        raise UsageError(f"--plot draws at most {MOST_ROWS} rows, not {rows}")


def plot_validation(result: Validation) -> Figure:
    """A line for each row: errors of the model, of the specs alone and of the control."""
    rows = result.rows[::-1]
    figure, (axes,) = panels(7, 1.4 + 0.32 * len(rows))
    series = (
        ("the model", "o", COLOURS[0], [row.error for row in rows]),
        ("specs alone", "|", COLOURS[6], [row.specs_alone_error for row in rows]),
        ("peak FLOP/s only", "x", COLOURS[2], [row.peak_only_error for row in rows]),
    )
    for label, marker, colour, errors in series:
        percent = [100 * error for error in errors]
        axes.plot(percent, range(len(rows)), marker, color=colour, mew=1.6, label=label)
    names = [
        f"{plain(row.measured.system)}, {row.measured.batch_per_core} a core"
        f"{' (fit)' if row.measured.calibration else ''}"
        for row in rows
    ]
    axes.set_yticks(range(len(rows)), names, fontsize=7)
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.axvline(0, color="#555555", lw=0.6)
    axes.axvspan(-10, 10, color="#eeeeee", lw=0, zorder=0)
    axes.set_xlabel("predicted against measured step [%]; grey: within 10 %")
    axes.set_title(f"deployed model, memory_efficiency {result.memory_efficiency:.3f}")
    figure.legend(
        *axes.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=7
    )
    return figure
