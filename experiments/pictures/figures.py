"""Figures that need no screen: how they are made, saved, and what all of them share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.output import UsageError, whole_file
from experiments.pictures.drawing import DPI, drawing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from experiments.pictures.notebook import NotebookFigure

UNDATED: dict[str, dict[str, Any]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
"""Formats by their endings, and what of their metadata would differ from run to run."""
COLOURS = ("#4477aa", "#228833", "#ee6677", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")
"""Paul Tol's bright scheme, told apart by colour-blind readers too."""
PAPER_WIDTH = 2.0
"""Line width of the papers' marks."""
NARROW = 4.0
"""Below this ratio of its ends, a logarithmic axis has too few of 1, 2, 5, 10 to read."""


def check_plot(path: str) -> None:
    """Raise UsageError unless the file name ends in a format we draw."""
    if Path(path).suffix.lower() not in UNDATED:
        raise UsageError(f"--plot {path!r}: the name must end in {', '.join(UNDATED)}")


def new_figure(width: float, height: float, layout: str | None = None) -> NotebookFigure:
    """An empty figure of so many inches; laid out by hand unless ``layout`` says how."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    from experiments.pictures.notebook import NotebookFigure

    figure = NotebookFigure(figsize=(width, height), layout=layout)  # type: ignore[arg-type]
    FigureCanvasAgg(figure)
    return figure


def panels(
    width: float, height: float, rows: int = 1, columns: int = 1
) -> tuple[Figure, list[Axes]]:
    """A figure of so many inches that makes room for its texts, and its panels row by row."""
    figure = new_figure(width, height, "constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def save(figure: Figure, path: str) -> None:
    """Write the figure whole, in the format its name ends in; raises UsageError.

    The same figure makes the same file, byte for byte: no dates, no random ids.
    """
    check_plot(path)
    with drawing(), whole_file(path) as target:
        figure.savefig(target, dpi=DPI, metadata=UNDATED[Path(path).suffix.lower()])


def shortened(text: str, longest: int) -> str:
    """A text of at most ``longest`` characters, its middle left out."""
    if len(text) <= longest:
        return text
    end = (longest - 1) // 2
    return f"{text[: longest - 1 - end]}\N{HORIZONTAL ELLIPSIS}{text[-end:]}"


def plain(name: str) -> str:
    """A name from somebody's file as text, not as matplotlib's mathematics."""
    return name.replace("$", r"\$")


def write_above(axes: Axes, place: float, top: float, text: str) -> None:
    """A bar's value, upright above it."""
    axes.annotate(
        text,
        (place, top),
        (0, 3),
        textcoords="offset points",
        ha="center",
        rotation=90,
        fontsize=6,
    )


def speedup_axis(axes: Axes) -> None:
    """A logarithmic axis that reads 1, 2, 5, 10, or finer where all lies close together."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    axes.set_yscale("log")
    axes.margins(x=0.02, y=0.12)
    low, high = axes.get_ylim()
    close = high < NARROW * low
    axes.yaxis.set_major_locator(MaxNLocator(6) if close else LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_ylabel("speedup over data parallelism")
    axes.grid(axis="y", lw=0.3)
    axes.set_axisbelow(True)
