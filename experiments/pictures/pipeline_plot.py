"""A pipeline as everybody draws it: a row for each stage, micro-batches numbered, bubbles grey."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

from experiments.pictures.figures import CHARACTER, corner_legend, inches_of, new_figure, shortened
from experiments.pictures.gantt import LINE, NAME_SIZE, PIXEL, part_thousands, time_said, time_unit
from experiments.pictures.palette import IDLE, PHASES
from planners import Plan
from simulator import Timeline
from simulator.analysis.stages import PassSpan, bubble, passes, stage_uses

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_ROWS = 64
MOST_PASSES = 96
"""Of a row: of a longer run the middle is left out."""
GAP = 0.04
"""What is left out is so wide, of a half of what is shown."""
WIDTH, RIGHT, TOP, BOTTOM, ROW = 11.0, 0.3, 0.5, 0.75, 0.3
LABEL_SIZE, LONGEST_LABEL = 8.0, 44
PHASE = {"F": "forward", "B": "backward", "W": "gradient", "U": "update"}


Span = tuple[int, int]
"""A part of the run that is drawn: from and until (ps)."""


class Row(NamedTuple):
    """A replica of a place: its name, and its passes."""

    label: str
    passes: list[PassSpan]


def rows_of(plan: Plan, timeline: Timeline) -> list[Row]:
    """One for each replica of each place, by the first of its workers."""
    if plan.pipeline is None:
        return []
    layers = plan.pipeline.layers(plan.nodes)
    found: dict[tuple[int, int, str], Row] = {}
    several = len({worker.device.name for worker in timeline.program.workers}) > 1
    for number, worker in enumerate(timeline.program.workers):
        mine = worker.rank_program
        if mine is None or (mine.rank, mine.replica, worker.device.name) in found:
            continue
        stages = range(mine.rank, len(layers), len(plan.pipeline.places))
        what = ", ".join("…".join(dict.fromkeys((layers[k][0], layers[k][-1]))) for k in stages)
        many = plan.pipeline.replicas[mine.rank]
        which = f" ({mine.replica + 1} of {many})" if many > 1 else ""
        on = f", {worker.device.name}" if several else ""
        label = f"{', '.join(map(str, stages))}{which}{on}: {what}"
        found[mine.rank, mine.replica, worker.device.name] = Row(
            label, list(passes(timeline, number, whole=False))
        )
    return [found[key] for key in sorted(found, key=lambda key: key[:2])]


def spans_of(rows: Sequence[Row], end_ps: int) -> list[Span]:
    """What is drawn: the first and last half of MOST_PASSES of each row, or all of a short run."""
    half = MOST_PASSES // 2
    long = [row.passes for row in rows if len(row.passes) > MOST_PASSES]
    until = min((passes[half - 1].end_ps for passes in long), default=end_ps)
    after = max((passes[-half].start_ps for passes in long), default=end_ps)
    return [(0, until), (after, end_ps)] if until < after else [(0, end_ps)]


def plot_pipeline(title: str, plan: Plan, timeline: Timeline) -> Figure:
    """Stages as rows from the top, passes as boxes with the number of their micro-batch.

    Where several versions of the weights are in use, a box says which one behind
    the number; a second stage of a place has a frame. The middle of a long run is left out.
    A pass narrower than a pixel is drawn one pixel wide, where several share it the longest.
    Rows behind MOST_ROWS are left out, too.
    """
    every = rows_of(plan, timeline)
    rows = every[:MOST_ROWS]
    spans = spans_of(rows, max(timeline.makespan_ps, 1))
    shown_ps = sum(last - first for first, last in spans)
    labels = [shortened(row.label, LONGEST_LABEL) for row in rows]
    left = 0.35 + max(inches_of(label, LABEL_SIZE) for label in labels)
    width = WIDTH - left - RIGHT
    said = f"{title}: {time_said(timeline.iteration_s)}, bubble {bubble(stage_uses(timeline)):.1%}"
    said = fill(said, int(width / (9 * CHARACTER)))
    height = TOP + LINE * said.count("\n") + BOTTOM + len(rows) * ROW
    figure = new_figure(WIDTH, height)
    place = {"left": left / WIDTH, "right": 1 - RIGHT / WIDTH, "bottom": BOTTOM / height}
    place |= {"top": (BOTTOM + len(rows) * ROW) / height, "wspace": GAP}
    widths = [last - first for first, last in spans]
    panels = figure.subplots(
        1, len(spans), sharey=True, squeeze=False, width_ratios=widths, gridspec_kw=place
    )[0]
    name, unit = time_unit(timeline.makespan_ps)
    marked = False
    for axes, span in zip(panels, spans, strict=True):
        for y, row in enumerate(rows):
            marked |= _draw(axes, y, row.passes, span, unit, width / shown_ps)
        axes.set_xlim(span[0] / unit, span[1] / unit)
        part_thousands(axes)
        axes.tick_params(labelsize=LABEL_SIZE, length=2)
    panels[0].set_yticks(range(len(rows)), labels, fontsize=LABEL_SIZE, parse_math=False)
    panels[0].set_ylim(len(rows) - 0.5, -0.5)
    panels[0].set_xlabel(f"time [{name}]", fontsize=LABEL_SIZE, x=shown_ps / widths[0] / 2)
    panels[0].set_title(said, fontsize=9, loc="left", pad=6, parse_math=False)
    _legend(figure, {one.letter for row in rows for one in row.passes}, height)
    texts = [text.get_text() for axes in panels for text in axes.texts]
    version = ", v the version of the weights" * any("v" in text for text in texts)
    notes = [f"numbers are micro-batches{version}"] if texts else []
    if marked:
        notes.append("a mark one pixel wide stands for shorter passes")
    if any(len({one.stage for one in row.passes}) > 1 for row in rows):
        notes.append("dark and light in turn; pale: a later stage of the same place")
    if len(spans) > 1:
        ends = f"{spans[0][1] / unit:.4g} to {spans[1][0] / unit:.4g} {name}"
        notes.append(f"the middle is left out: {ends}")
    if left_out := len(every) - len(rows):
        notes.append(f"the last {left_out} of {len(every)} rows are left out")
    note = "\n".join(notes)
    figure.text(0.1 / WIDTH, 0.1 / height, note, fontsize=7, va="bottom", parse_math=False)
    return figure


def _draw(
    axes: Axes, y: int, found: Sequence[PassSpan], span: Span, unit: int, inches: float
) -> bool:
    """A row of the passes in a span; a picosecond is so many ``inches`` wide; True with marks."""
    first = min((one.stage for one in found), default=0)
    several = any(one.version for one in found)
    axes.axhspan(y - 0.42, y + 0.42, color=IDLE, lw=0)
    marked, least = False, PIXEL / inches
    for one in sorted(found, key=lambda one: one.end_ps - one.start_ps):
        start, end = max(one.start_ps, span[0]), min(one.end_ps, span[1])
        if start >= end:
            continue
        dark, middle, light = PHASES[PHASE[one.letter]]
        face = (middle, dark, light)[one.micro_batch % 2 if one.stage == first else 2]
        mark = end - start < least
        face = middle if one.letter == "U" or mark else face
        axes.broken_barh(
            [(min(start, span[1] - least) / unit, max(end - start, least) / unit)],
            (y - 0.42, 0.84),
            facecolors=face,
            edgecolors="white" if one.stage == first else dark,
            lw=0.4 if end - start > 4 * least else 0,
            zorder=3 if mark else 2,
        )
        marked |= mark
        room = (end - start) * inches / (NAME_SIZE * CHARACTER)
        text = f"{one.micro_batch}" + (f" v{one.version}" if several else "")
        text = text if len(text) < room else f"{one.micro_batch}"
        if one.letter != "U" and len(text) < room:
            axes.text(
                (start + end) / 2 / unit,
                y,
                text,
                fontsize=NAME_SIZE,
                ha="center",
                va="center_baseline",
                color="white" if face == dark else "black",
            )
    return marked


def _legend(figure: Figure, letters: set[str], height: float) -> None:
    from matplotlib.patches import Patch

    words = {"F": "forward", "B": "backward", "W": "gradients of weights", "U": "update"}
    words["B"] = "errors" if "W" in letters else "backward"
    handles = [
        Patch(facecolor=PHASES[PHASE[one]][1], label=words[one]) for one in "FBWU" if one in letters
    ]
    handles.append(Patch(facecolor=IDLE, label="idle or exchanging"))
    corner_legend(figure, handles, (1 - RIGHT / WIDTH, 0.02 / height), len(handles))
