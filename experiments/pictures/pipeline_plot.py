"""A pipeline as everybody draws it: a row for each stage, micro-batches numbered, bubbles grey."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

from experiments.pictures.figures import CHARACTER, corner_legend, new_figure, shortened
from experiments.pictures.gantt import SHADES, time_unit
from simulator.analysis.stages import PassSpan, bubble, passes, stage_uses

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from planners import Plan
    from simulator import Timeline

MOST_ROWS = 64
MOST_PASSES = 96
"""Of a row: a longer run is cut behind so many."""
WIDTH, RIGHT, TOP, BOTTOM, ROW = 11.0, 0.3, 0.5, 0.75, 0.3
LONGEST_LABEL = 44
PHASE = {"F": "forward", "B": "backward", "W": "gradient", "U": "update"}
BUBBLE = "#e9e9e9"


class Row(NamedTuple):
    """A replica of a place: its name, and its passes."""

    label: str
    passes: list[PassSpan]


def rows_of(plan: Plan, timeline: Timeline) -> list[Row]:
    """One for each replica of each place, by the first of its workers; at most MOST_ROWS."""
    if plan.pipeline is None:
        return []
    layers = plan.pipeline.layers(plan.nodes)
    found: dict[tuple[int, int], Row] = {}
    for number, worker in enumerate(timeline.program.workers):
        mine = worker.rank_program
        if mine is None or (mine.rank, mine.replica) in found:
            continue
        stages = range(mine.rank, len(layers), len(plan.pipeline.places))
        what = ", ".join("…".join(dict.fromkeys((layers[k][0], layers[k][-1]))) for k in stages)
        many = plan.pipeline.replicas[mine.rank]
        which = f" ({mine.replica + 1} of {many})" if many > 1 else ""
        label = f"{', '.join(map(str, stages))}{which}: {what}"
        found[mine.rank, mine.replica] = Row(label, list(passes(timeline, number)))
    return [found[key] for key in sorted(found)][:MOST_ROWS]


def plot_pipeline(title: str, plan: Plan, timeline: Timeline) -> Figure:
    """Stages as rows from the top, passes as boxes with the number of their micro-batch.

    Where several versions of the weights are in use, a box says which one behind
    the number; a second stage of a place has a frame.
    """
    rows = rows_of(plan, timeline)
    ends = [row.passes[MOST_PASSES - 1].end_ps for row in rows if len(row.passes) > MOST_PASSES]
    end_ps = min(ends, default=max(timeline.makespan_ps, 1))
    size = 7.0
    labels = [shortened(row.label, LONGEST_LABEL) for row in rows]
    left = 0.35 + max(map(len, labels)) * size * CHARACTER
    height = TOP + BOTTOM + len(rows) * ROW
    width = WIDTH - left - RIGHT
    figure = new_figure(WIDTH, height)
    place = (left / WIDTH, BOTTOM / height, width / WIDTH, len(rows) * ROW / height)
    axes = figure.add_axes(place)
    name, unit = time_unit(end_ps)
    for y, row in enumerate(rows):
        _draw(axes, y, row.passes, unit, end_ps, width)
    axes.set_yticks(range(len(rows)), labels, fontsize=size, parse_math=False)
    axes.set_xlim(0, end_ps / unit)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(labelsize=size, length=2)
    axes.set_xlabel(f"time [{name}]", fontsize=8)
    took_in, took_unit = time_unit(timeline.iteration_ps)
    took = f"{timeline.iteration_ps / took_unit:.4g} {took_in}"
    said = f"{title}: {took}, bubble {bubble(stage_uses(timeline)):.1%}"
    said = fill(said, int(width / (9 * CHARACTER)))
    axes.set_title(said, fontsize=9, loc="left", pad=6, parse_math=False)
    _legend(figure, {one.letter for row in rows for one in row.passes}, height)
    note = _note(rows, end_ps, timeline)
    figure.text(0.1 / WIDTH, 0.1 / height, note, fontsize=6, va="bottom", parse_math=False)
    return figure


def _draw(
    axes: Axes, y: int, found: Sequence[PassSpan], unit: int, end_ps: int, width: float
) -> None:
    first = min((one.stage for one in found), default=0)
    several = any(one.version for one in found)
    axes.broken_barh([(0, end_ps / unit)], (y - 0.42, 0.84), facecolors=BUBBLE, lw=0)
    for one in found:
        if one.start_ps >= end_ps:
            continue
        dark, middle, light = SHADES[PHASE[one.letter]]
        face = (middle, dark, light)[one.micro_batch % 2 if one.stage == first else 2]
        axes.broken_barh(
            [(one.start_ps / unit, (one.end_ps - one.start_ps) / unit)],
            (y - 0.42, 0.84),
            facecolors=face,
            edgecolors="white" if one.stage == first else dark,
            lw=0.4,
        )
        text = f"{one.micro_batch}" + (f" v{one.version}" if several else "")
        room = (min(one.end_ps, end_ps) - one.start_ps) / end_ps * width
        text = text if len(text) * 6 * CHARACTER < room else f"{one.micro_batch}"
        if one.letter != "U" and len(text) * 6 * CHARACTER < room:
            axes.text(
                (one.start_ps + min(one.end_ps, end_ps)) / 2 / unit,
                y,
                text,
                fontsize=6,
                ha="center",
                va="center_baseline",
                color="black" if face == light else "white",
            )


def _legend(figure: Figure, letters: set[str], height: float) -> None:
    from matplotlib.patches import Patch

    words = {"F": "forward", "B": "backward", "W": "gradients of weights", "U": "update"}
    words["B"] = "errors" if "W" in letters else "backward"
    handles = [
        Patch(facecolor=SHADES[PHASE[one]][1], label=words[one]) for one in "FBWU" if one in letters
    ]
    handles.append(Patch(facecolor=BUBBLE, label="idle"))
    corner_legend(figure, handles, (1 - RIGHT / WIDTH, 0.02 / height), len(handles))


def _note(rows: Sequence[Row], end_ps: int, timeline: Timeline) -> str:
    said = ["numbers are micro-batches"]
    if any(one.version for row in rows for one in row.passes):
        said[0] += ", v the version of the weights"
    if end_ps < timeline.makespan_ps:
        said.append(f"the first {MOST_PASSES} passes of a stage are shown")
    return "\n".join(said)
