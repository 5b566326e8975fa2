"""Figures that need no screen: how they are made, saved, and what all of them share."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from experiments.output import UsageError, whole_file
from experiments.pictures.palette import SERIES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


PLANNERS = ("data_parallel", "owt", "hypar", "accpar", "model_parallel")
"""Planners that have the colour at their place for themselves."""


def places(planners: Sequence[str]) -> dict[str, int]:
    """Each planner's number among the colours.

    Others than PLANNERS have those behind theirs, in their order, and where
    these do not suffice those of PLANNERS that are absent; then all once more.
    """
    own = {name: PLANNERS.index(name) for name in planners if name in PLANNERS}
    free = [*range(len(PLANNERS), len(SERIES)), *range(len(PLANNERS))]
    free = [place for place in free if place not in own.values()] or list(range(len(SERIES)))
    others = [name for name in dict.fromkeys(planners) if name not in own]
    own |= {name: free[i % len(free)] for i, name in enumerate(others)}
    return {name: own[name] for name in planners}


def colours(planners: Sequence[str]) -> dict[str, str]:
    """Each planner's colour."""
    return {name: SERIES[place] for name, place in places(planners).items()}


DPI = 150
CSS_PIXELS = 96
"""Pixels that a browser takes for an inch, however fine its screen is."""


@contextmanager
def drawing() -> Iterator[None]:
    """How figures become files.

    Names come from strangers' files: a letter our font lacks is drawn as a
    box, without a warning.
    """
    from matplotlib import rc_context

    with (
        rc_context({"hatch.linewidth": 0.4, "svg.hashsalt": "accelarray"}),
        warnings.catch_warnings(),
    ):
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


UNDATED: dict[str, dict[str, Any]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
"""Formats by their endings, and what of their metadata would differ from run to run."""
PAPER_WIDTH = 2.0
"""Line width of the papers' marks."""
PAPERS = "_the paper's"
"""Their label, which no legend shows by itself."""
LEGEND_SIZE, TITLE_SIZE = 8, 10
"""Points."""
CHARACTER = 0.6 / 72
"""Width of a character of one point, inches; a little more than most are."""
HANDLE, MARGINS = 0.5, 0.8
"""Inches: a legend's patch and what is around it, and what is beside the axes."""
NEAR = 0.97
"""A mark higher than this fraction of a bar touches what stands above the bar."""
NARROW = 10.0
"""Above this ratio of its ends, a logarithmic axis has three of 1, 2, 5, 10 and more."""
LEAST = 2.0
"""The least ratio of its ends: a difference of one percent is no high bar."""


def check_plot(path: str) -> None:
    """Raise UsageError unless the file name ends in a format we draw."""
    if Path(path).suffix.lower() not in UNDATED:
        raise UsageError(f"--plot {path!r}: the name must end in {', '.join(UNDATED)}")


def new_figure(width: float, height: float, layout: Any = None) -> Figure:
    """An empty figure of so many inches; laid out by hand unless ``layout`` says how.

    A notebook shows it whether or not ``pyplot`` was imported.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    figure._repr_png_ = partial(_pixels, figure)  # type: ignore[attr-defined]
    return figure


def _pixels(figure: Figure) -> tuple[bytes, dict[str, int]]:
    """The pixels that a saved PNG has, and how large to show them."""
    width, height = (round(inches * CSS_PIXELS) for inches in figure.get_size_inches())
    with drawing(), io.BytesIO() as file:
        figure.savefig(file, format="png", dpi=DPI)
        return file.getvalue(), {"width": width, "height": height}


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
    ending = Path(path).suffix.lower()
    with drawing(), whole_file(path) as target:
        figure.savefig(target, dpi=DPI, metadata=UNDATED[ending])
        if ending == ".png":
            _in_256_colours(target)


def _in_256_colours(path: Path) -> None:
    """Make a PNG a third as large; one too large for Pillow stays as it is."""
    from PIL import Image

    warnings.simplefilter("ignore", Image.DecompressionBombWarning)
    with suppress(Image.DecompressionBombError), Image.open(path) as image:
        few = image.convert("RGB").quantize(256, dither=Image.Dither.NONE)
        few.save(path, format="PNG", optimize=True, dpi=(DPI, DPI))


@lru_cache(4096)
def inches_of(text: str, size: float) -> float:
    """How many inches a line of text takes in letters of ``size`` points, or a little more."""
    with drawing():
        figure = new_figure(1, 1)
        figure.set_dpi(DPI)
        drawn = figure.text(0, 0, text, fontsize=size, parse_math=False)
        pixels = drawn.get_window_extent().width
    return max(pixels / DPI, len(text) * size * CHARACTER)


def shortened(text: str, longest: int) -> str:
    """A text of at most ``longest`` characters, its middle left out."""
    if len(text) <= longest:
        return text
    end = (longest - 1) // 2
    return f"{text[: longest - 1 - end]}\N{HORIZONTAL ELLIPSIS}{text[-end:]}"


def plain(name: str) -> str:
    """A name from somebody's file as text, not as matplotlib's mathematics."""
    return name.replace("$", r"\$")


def write_value(
    axes: Axes, place: float, height: float, text: str, mark: float | None = None
) -> None:
    """A bar's value, upright above it; inside its top where a paper's mark is there or above.

    Above that mark it would be read as the paper's.
    """
    inside = mark is not None and mark > NEAR * height
    axes.annotate(
        text,
        (place, height),
        (0, -3 if inside else 3),
        textcoords="offset points",
        ha="center",
        va="top" if inside else "bottom",
        rotation=90,
        fontsize=7.5,
    )


class Height(NamedTuple):
    """A bar: which group it is in, how high it is, its text, and the paper's height, if any."""

    group: int
    value: float
    text: str
    paper: float | None = None


def grouped_bars(axes: Axes, bars: Mapping[str, Sequence[Height]]) -> None:
    """Bars of each planner beside those of the others; the paper's heights as marks across them."""
    colour, width = colours(list(bars)), 0.8 / len(bars)
    for i, (planner, own) in enumerate(bars.items()):
        beside = (i - (len(bars) - 1) / 2) * width
        places, heights = [bar.group + beside for bar in own], [bar.value for bar in own]
        axes.bar(places, heights, width * 0.92, color=colour[planner], label=plain(planner))
        for place, bar in zip(places, own, strict=True):
            if bar.paper is not None:
                ends = [place - width / 2, place + width / 2]
                axes.plot(ends, [bar.paper] * 2, "k-", lw=PAPER_WIDTH, label=PAPERS)
            write_value(axes, place, bar.value, bar.text, bar.paper)


def titled(axes: Axes, title: str, papers: str) -> None:
    """The title, planners below it, and the papers' marks, if there are any, as one entry."""
    handles, labels = axes.get_legend_handles_labels()
    marks = [line for line in axes.lines if str(line.get_label()) == PAPERS]
    if any(len(line.get_xdata()) for line in marks):  # type: ignore[arg-type]
        handles.append(marks[0])
        labels.append(papers)
    inches = axes.get_figure(root=True).get_figwidth() - MARGINS  # type: ignore[union-attr]
    legend_below_title(axes, title, handles, labels, inches)


def wrapped(title: str, inches: float, size: float) -> str:
    """A title in as many lines as it needs: an array's changes make it long."""
    most = max(20, int(inches / (size * CHARACTER)))
    return "\n".join(fill(line, most) for line in title.splitlines())


def columns(labels: Sequence[str], inches: float, size: float) -> int:
    """How many entries of a legend, in letters of ``size`` points, fit beside one another."""
    entries = [HANDLE + len(label) * size * CHARACTER for label in labels]
    return len(labels) if sum(entries) < inches else max(1, int(inches / max(entries)))


def corner_legend(
    figure: Figure, handles: Sequence[Any], corner: tuple[float, float], columns: int, **more: Any
) -> None:
    """A small legend, its lower right ``corner`` there (fractions of the figure)."""
    style: dict[str, Any] = {
        "fontsize": LEGEND_SIZE,
        "frameon": False,
        "loc": "lower right",
        "bbox_to_anchor": corner,
    }
    figure.legend(handles=handles, ncols=columns, **(style | more))


def legend_below_title(
    axes: Axes, title: str, handles: Sequence[Any], labels: Sequence[str], inches: float
) -> None:
    """The title, and below it, clear of all that is drawn, as many entries a row as fit."""
    count = columns(labels, inches, LEGEND_SIZE)
    rows = -(-len(labels) // count)
    title = wrapped(title, inches, TITLE_SIZE)
    axes.set_title(title, pad=6 + 1.7 * LEGEND_SIZE * rows, fontsize=TITLE_SIZE)
    axes.legend(
        handles,
        labels,
        ncols=count,
        fontsize=LEGEND_SIZE,
        frameon=False,
        loc="lower center",
        bbox_to_anchor=(0.5, 0.985),
    )


def name_axes(axes: Axes, across: str | None, up: str | None, *grid: Literal["x", "y"]) -> None:
    """Names of axes, and thin lines behind what is drawn (along both axes, unless said)."""
    axes.set(xlabel=across, ylabel=up)
    axes.grid(axis=grid[0] if grid else "both", lw=0.3)
    axes.set_axisbelow(True)


def finish(axes: Axes, title: str, across: str, up: str) -> None:
    """Names of axes, a title that fits, and the legend."""
    name_axes(axes, across, up)
    inches = axes.get_figure(root=True).get_figwidth() - MARGINS  # type: ignore[union-attr]
    axes.set_title(wrapped(plain(title), inches, TITLE_SIZE), fontsize=TITLE_SIZE)
    axes.legend(fontsize=LEGEND_SIZE, loc="best")


def speedup_axis(axes: Axes, name: str = "speedup over data parallelism") -> None:
    """Speedups over data parallelism, or what else is named, as bars."""
    axes.margins(x=0.02, y=0.12)
    readable_log(axes)
    name_axes(axes, axes.get_xlabel(), name, "y")


def readable_log(axes: Axes) -> None:
    """A logarithmic axis that reads 1, 2, 5, 10, or finer where all lies close together."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    axes.set_yscale("log")
    low, high = axes.get_ylim()
    if high < LEAST * low:
        more = (LEAST * low / high) ** 0.5
        low, high = low / more, high * more
        axes.set_ylim(low, high)
    close = high < NARROW * low
    axes.yaxis.set_major_locator(
        MaxNLocator(7, steps=[1, 2, 5, 10]) if close else LogLocator(subs=(1, 2, 5))
    )
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
