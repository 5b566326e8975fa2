"""Figures laid out by hand, in inches, that need no screen."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from experiments.output import whole_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 150


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of so many inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def save(figure: Figure, path: str) -> None:
    """Write the figure whole, in the format its name ends in; raises UsageError.

    Names come from strangers' files: a letter our font lacks is drawn as a
    box, without a warning.
    """
    from matplotlib import rc_context

    with (
        rc_context({"hatch.linewidth": 0.4, "svg.hashsalt": "accelarray"}),
        warnings.catch_warnings(),
        whole_file(path) as target,
    ):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        metadata = {"Date": None} if path.lower().endswith(".svg") else None
        figure.savefig(target, dpi=DPI, metadata=metadata)


def shortened(text: str, longest: int) -> str:
    """A text of at most ``longest`` characters, its middle left out."""
    if len(text) <= longest:
        return text
    end = (longest - 1) // 2
    return f"{text[: longest - 1 - end]}\N{HORIZONTAL ELLIPSIS}{text[-end:]}"
