"""Predicted against measured steps."""

from __future__ import annotations

from experiments.plots import COLOURS, new_figure, plain, save
from experiments.validate.measured import Validation

_TEN_PERCENT = 0.1


def plot_validation(result: Validation, path: str) -> None:
    """A point for every row on logarithmic axes; the band is 10 % either way."""
    figure, (axes,) = new_figure(5.2, 4.8, 1, 1)
    measured = [row.measured.step_s * 1e3 for row in result.rows]
    span = [min(measured) * 0.7, max(measured) * 1.4]
    axes.plot(span, span, color="#555555", lw=0.8)
    low, high = ([x * (1 + sign * _TEN_PERCENT) for x in span] for sign in (-1, 1))
    axes.fill_between(span, low, high, color="#dddddd", lw=0, label="within 10 %")
    for calibration, label in ((True, "used for the fit"), (False, "other rows")):
        rows = [row for row in result.rows if row.measured.calibration == calibration]
        axes.plot(
            [row.measured.step_s * 1e3 for row in rows],
            [row.step.total_s * 1e3 for row in rows],
            "os"[calibration],
            color=COLOURS[2 if calibration else 0],
            label=label,
        )
    for row in result.rows:
        axes.annotate(
            f"{plain(row.measured.system)}, {row.measured.batch_per_core} a core",
            (row.measured.step_s * 1e3, row.step.total_s * 1e3),
            (6, -8),
            textcoords="offset points",
            fontsize=6,
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("measured step [ms]")
    axes.set_ylabel("predicted step [ms]")
    axes.set_title(f"memory_efficiency {result.memory_efficiency:.3f}")
    axes.legend(fontsize=8, frameon=False, loc="upper left")
    save(figure, path)
