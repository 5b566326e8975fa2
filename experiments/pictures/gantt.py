"""Gantt charts: lanes of cores, memories and links on one time axis, coloured by phase."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

from experiments.output import UsageError
from experiments.pictures.figures import (
    CHARACTER,
    DPI,
    corner_legend,
    inches_of,
    new_figure,
    shortened,
)
from experiments.pictures.lanes import Chart, Slice
from experiments.pictures.palette import IDLE, OTHER, PHASES
from experiments.terms import collective, duration, operation_name
from simulator import PICOSECONDS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


class Bar(NamedTuple):
    """What is drawn for a slice; in inches from the start of the step.

    A ``mark`` is a pixel wide and stands for every slice narrower than that
    which starts in its pixel; it has the looks and name of the longest.
    """

    start: float
    width: float
    phase: str
    kind: str
    layer: str
    mark: bool


def bars(slices: Iterable[Slice], inches_per_ps: float, pixel: float) -> list[Bar]:
    """The bars of a lane, by start; ``pixel`` is its width in inches.

    What takes no time is not shown. However many slices there are, there are
    at most twice as many bars as pixels.
    """
    found: list[tuple[float, float, Slice, bool]] = []
    longest: dict[int, Slice] = {}
    for done in slices:
        length = done.end_ps - done.start_ps
        if length * inches_per_ps >= pixel:
            found.append((done.start_ps * inches_per_ps, length * inches_per_ps, done, False))
        elif length > 0:
            place = int(done.start_ps * inches_per_ps / pixel)
            old = longest.setdefault(place, done)
            if old.end_ps - old.start_ps < length:
                longest[place] = done
    found += [(place * pixel, pixel, done, True) for place, done in longest.items()]
    return sorted(
        Bar(start, width, done.operation.phase, done.operation.kind, done.operation.layer, mark)
        for start, width, done, mark in found
    )


def names(row: Sequence[Bar], width: float, size: float) -> Iterator[tuple[float, Bar, bool]]:
    """Names of ``size`` points where there is room: in a bar (True), else between it and the next.

    Of each the place, the middle of the name or its left, and the bar.
    """
    nexts = [*(bar.start for bar in row[1:]), width]
    for bar, after in zip(row, nexts, strict=False):  # an idle lane has no bar, and one end
        needed = inches_of(bar.layer, size) + 0.05
        end = bar.start + bar.width
        if needed < bar.width:
            yield bar.start + bar.width / 2, bar, True
        elif needed < after - end:
            yield end + 0.025, bar, False


PIXEL = 1 / DPI
MOST_LANES = 1200
"""More would neither be read nor fit into a PNG."""

SHADE_OF = {"compute": 0, "partial sums": 1, "boundary": 2, "memory": 2, "send": 2, "weights": 2}
"""Kinds of operations."""
HATCH_OF = {"boundary": "//////", "send": "......", "weights": "------"}
TIME_UNITS = (("s", 10**12), ("ms", 10**9), ("\N{MICRO SIGN}s", 10**6), ("ns", 10**3), ("ps", 1))

WIDTH, RIGHT, TOP, BETWEEN, BOTTOM = 11.0, 0.7, 0.35, 0.42, 0.65
"""Inches: the page, and its margins beside, above, between and below the charts."""
LINE = 0.17
"""Inches of one more line of a title or of the legend."""
NAME_SIZE = 7.0
LONGEST_LABEL = 56


Used = dict[tuple[str, str], set[str]]
"""Phases and kinds of operations that are drawn, and which collectives they are."""


class Style(NamedTuple):
    """How the slices of one phase and kind look."""

    face: str
    edge: str
    hatch: str | None
    text: str


def style(phase: str, kind: str) -> Style:
    """Computing dark, sums in the phase's colour, boundaries hatched, HBM light.

    Sends are dotted, gathered weights ruled.
    """
    shades = PHASES.get(phase, OTHER)
    shade = SHADE_OF.get(kind, 1)
    if kind == "memory":
        return Style(shades[2], "white", None, "black")
    if shade == 2:
        return Style(shades[2], shades[1], HATCH_OF[kind], "black")
    return Style(shades[shade], "white", None, "white" if shade == 0 else "black")


def time_unit(longest_ps: int) -> tuple[str, int]:
    """The unit in which a time reads best, and its picoseconds."""
    return next((unit for unit in TIME_UNITS if longest_ps >= unit[1]), TIME_UNITS[-1])


def time_said(seconds: float) -> str:
    """A duration in the axes' units, which no line break parts from its number."""
    said = duration(seconds).replace("us", "\N{MICRO SIGN}s")
    return said.replace(" ", "\N{NO-BREAK SPACE}")


def part_thousands(axes: Axes) -> None:
    """Large times on the lower axis as ``time_said`` has them."""
    if axes.get_xlim()[1] >= 1000:
        axes.xaxis.set_major_formatter("{x:,.10g}")


def plot_gantt(charts: Sequence[Chart]) -> Figure:
    """Draw charts one above the other on one time axis; raises UsageError for too many lanes.

    A slice narrower than a pixel is drawn one pixel wide, where several share
    a pixel the longest; the share of time each lane is busy stands beside it.
    """
    lanes = sum(len(chart.lanes) for chart in charts)
    if lanes > MOST_LANES:
        raise UsageError(
            f"{lanes:,} lanes are too many for a picture (at most {MOST_LANES:,}); "
            "choose boards with --devices, or leave out --unfolded"
        )
    row, size = (0.26, 8.0) if lanes <= 48 else (0.14, 5.5)
    longest = max(
        inches_of(shortened(lane.label, LONGEST_LABEL), size)
        for chart in charts
        for lane in chart.lanes
    )
    left = 0.2 + longest
    width = WIDTH - left - RIGHT
    titles = [LINE * said(chart, width).count("\n") for chart in charts]
    used, phases, kinds = _looks(charts)
    height = TOP + lanes * row + BETWEEN * (len(charts) - 1) + sum(titles)
    height += BOTTOM + LINE * len(kinds)
    figure = new_figure(WIDTH, height)
    end_ps = max(1, *(chart.iteration_ps for chart in charts))
    place = height - TOP
    for chart, more in zip(charts, titles, strict=True):
        tall = len(chart.lanes) * row
        place -= tall + more
        axes = figure.add_axes((left / WIDTH, place / height, width / WIDTH, tall / height))
        marked = _draw(axes, chart, end_ps, width, size)
        axes.tick_params(axis="x", labelbottom=chart is charts[-1])
        place -= BETWEEN
    axes.set_xlabel(f"time [{time_unit(end_ps)[0]}]", fontsize=8)
    _legend(figure, used, phases, kinds)
    if marked:
        note = "a mark one pixel wide stands for shorter\nslices, named after the longest of them"
        figure.text(0.1 / WIDTH, 0.1 / height, note, fontsize=7, va="bottom")
    return figure


def said(chart: Chart, width: float) -> str:
    """A chart's title in lines that it has room for."""
    title = f"{chart.title}: {time_said(chart.iteration_ps / PICOSECONDS)}"
    return fill(title, int(width / (9 * CHARACTER)))


def _draw(axes: Axes, chart: Chart, end_ps: int, width: float, size: float) -> bool:
    """One chart, its axis ``width`` inches wide, labels of ``size`` points; True with marks."""
    _, unit = time_unit(end_ps)
    rows = [bars(lane.slices, width / end_ps, PIXEL) for lane in chart.lanes]
    scale = end_ps / unit / width
    for y, row in enumerate(rows):
        _lane(axes, y, row, width * chart.iteration_ps / end_ps, scale)
    beside = axes.get_yaxis_transform()
    for y, lane in enumerate(chart.lanes):
        share = 100 * lane.busy_ps / max(1, chart.iteration_ps)
        busy = "<0.01 %" if 0 < share < 0.01 else f"{share:.3g} %"
        axes.text(1.005, y, busy, transform=beside, va="center", fontsize=size)
    axes.text(1.005, 1.0, "busy", transform=axes.transAxes, va="bottom", fontsize=size)
    shown = [shortened(lane.label, LONGEST_LABEL) for lane in chart.lanes]
    axes.set_yticks(range(len(shown)), shown, fontsize=size, parse_math=False)
    axes.set_xlim(0, end_ps / unit)
    part_thousands(axes)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    axes.tick_params(labelsize=size, length=2)
    axes.grid(axis="x", lw=0.3)
    axes.set_axisbelow(True)
    if chart.iteration_ps < end_ps:
        axes.axvspan(chart.iteration_ps / unit, end_ps / unit, color=IDLE, lw=0)
    title = said(chart, width)
    axes.set_title(title, fontsize=9, loc="left", pad=4, parse_math=False)
    return any(bar.mark for row in rows for bar in row)


def _lane(axes: Axes, y: int, row: Sequence[Bar], width: float, scale: float) -> None:
    """Bars of one look together, then names; the step is ``width`` inches of ``scale`` units."""
    groups: dict[tuple[Style, bool], list[Bar]] = {}
    for bar in row:
        groups.setdefault((style(bar.phase, bar.kind), bar.mark), []).append(bar)
    for (look, mark), alike in groups.items():
        spans = [(bar.start * scale, bar.width * scale) for bar in alike]
        thin = min(bar.width for bar in alike) < 4 * PIXEL
        axes.broken_barh(
            spans,
            (y - 0.42, 0.84),
            facecolors=look.edge if mark and look.hatch else look.face,
            edgecolors=look.edge,
            hatch=None if mark else look.hatch,
            lw=0 if mark else 0.1 if thin else 0.4,
            zorder=3 if mark else 2,
        )
    for x, bar, inside in names(row, width, NAME_SIZE):
        look = style(bar.phase, bar.kind)
        patch = {"facecolor": look.face, "lw": 0, "pad": 0.6} if inside and look.hatch else None
        axes.text(
            x * scale,
            y,
            bar.layer,
            fontsize=NAME_SIZE,
            color=look.text if inside else "#333333",
            ha="center" if inside else "left",
            va="center_baseline",
            bbox=patch,
            parse_math=False,
            zorder=4,
        )


def _looks(charts: Sequence[Chart]) -> tuple[Used, list[str], list[str]]:
    """What is drawn: its pairs of phase and kind, the phases and the kinds."""
    lanes = [lane for chart in charts for lane in chart.lanes]
    used: Used = {}
    for operation in {one.operation for lane in lanes for one in lane.slices}:
        named = used.setdefault((str(operation.phase), str(operation.kind)), set())
        named.update(filter(None, [collective(operation)]))
    phases = [phase for phase in PHASES if any(p == phase for p, _ in used)]
    phases += sorted({phase for phase, _ in used} - set(PHASES))
    kinds = [kind for kind in SHADE_OF if any(k == kind for _, k in used)]
    kinds += sorted({kind for _, kind in used} - set(SHADE_OF))
    return used, phases, kinds


def _legend(figure: Figure, used: Used, phases: Sequence[str], kinds: Sequence[str]) -> None:
    """A column for each phase under its name."""
    from matplotlib.patches import Patch

    handles = []
    for phase in phases:
        whose = operation_name(phase, "compute").partition(", ")[2]
        handles.append(Patch(visible=False, label=whose))
        for kind in kinds:
            look, there = style(phase, kind), (phase, kind)
            patch = Patch(facecolor=look.face, edgecolor=look.edge, hatch=look.hatch)
            name = operation_name(phase, kind, used.get(there, ()))
            what = name.partition(", ")[0].partition(" of ")[0]
            patch.set(visible=there in used, label=what if there in used else " ")
            handles.append(patch)
    corner_legend(figure, handles, (1 - RIGHT / WIDTH, 0), max(1, len(phases)), borderaxespad=0.2)
