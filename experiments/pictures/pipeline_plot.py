"""A pipeline as everybody draws it: a row for each stage, micro-batches numbered, bubbles grey."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import fill
from typing import TYPE_CHECKING, NamedTuple

from experiments.pictures.figures import CHARACTER, corner_legend, new_figure, shortened
from experiments.pictures.gantt import LINE, NAME_SIZE, time_unit
from experiments.pictures.palette import IDLE, PHASES
from simulator.analysis.stages import PassSpan, bubble, passes, stage_uses

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from planners import Plan
    from simulator import Timeline

MOST_ROWS = 64
MOST_PASSES = 96
"""Of a row: of a longer run the middle is left out."""
GAP = 0.02
"""What is left out is so wide, of what is shown."""
WIDTH, RIGHT, TOP, BOTTOM, ROW = 11.0, 0.3, 0.5, 0.75, 0.3
LONGEST_LABEL = 44
PHASE = {"F": "forward", "B": "backward", "W": "gradient", "U": "update"}


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
    several = len({worker.device.name for worker in timeline.program.workers}) > 1
    for number, worker in enumerate(timeline.program.workers):
        mine = worker.rank_program
        if mine is None or (mine.rank, mine.replica) in found:
            continue
        stages = range(mine.rank, len(layers), len(plan.pipeline.places))
        what = ", ".join("…".join(dict.fromkeys((layers[k][0], layers[k][-1]))) for k in stages)
        many = plan.pipeline.replicas[mine.rank]
        which = f" ({mine.replica + 1} of {many})" if many > 1 else ""
        on = f", {worker.device.name}" if several else ""
        label = f"{', '.join(map(str, stages))}{which}{on}: {what}"
        found[mine.rank, mine.replica] = Row(label, list(passes(timeline, number)))
    return [found[key] for key in sorted(found)][:MOST_ROWS]


class Clock(NamedTuple):
    """Where times are drawn: all until ``until_ps``, then all from ``from_ps`` on, behind a gap."""

    until_ps: int
    from_ps: int
    end_ps: int

    @property
    def cut(self) -> bool:
        """Whether anything is left out."""
        return self.from_ps > self.until_ps

    @property
    def gap_ps(self) -> float:
        """How wide the gap is drawn."""
        return GAP * (self.until_ps + self.end_ps - self.from_ps) if self.cut else 0.0

    @property
    def shown_ps(self) -> float:
        """All that is drawn, with the gap."""
        return self(self.end_ps)

    def __call__(self, at_ps: int) -> float:
        """Where a time is; what is left out is in the gap."""
        if not self.cut or at_ps <= self.until_ps:
            return at_ps
        return self.until_ps + self.gap_ps + max(0, at_ps - self.from_ps)

    def shows(self, one: PassSpan) -> bool:
        """Whether some of a pass is drawn."""
        return not self.cut or one.start_ps < self.until_ps or one.end_ps > self.from_ps

    def clipped(self, one: PassSpan) -> tuple[float, float]:
        """Both ends of a pass as they are drawn: none of it lies in the gap."""
        start, end = one.start_ps, one.end_ps
        if self.cut and start < self.until_ps:
            end = min(end, self.until_ps)
        elif self.cut:
            start = max(start, self.from_ps)
        return self(start), self(end)


def clock(rows: Sequence[Row], end_ps: int) -> Clock:
    """The first and the last half of MOST_PASSES passes of each row, or all of a short run."""
    half = MOST_PASSES // 2
    long = [row.passes for row in rows if len(row.passes) > MOST_PASSES]
    until = min((passes[half - 1].end_ps for passes in long), default=end_ps)
    after = max((passes[-half].start_ps for passes in long), default=end_ps)
    return Clock(until, after, end_ps) if until < after else Clock(end_ps, end_ps, end_ps)


def plot_pipeline(title: str, plan: Plan, timeline: Timeline) -> Figure:
    """Stages as rows from the top, passes as boxes with the number of their micro-batch.

    Where several versions of the weights are in use, a box says which one behind
    the number; a second stage of a place has a frame. The middle of a long run is left out.
    """
    rows = rows_of(plan, timeline)
    at = clock(rows, max(timeline.makespan_ps, 1))
    size = 8.0
    labels = [shortened(row.label, LONGEST_LABEL) for row in rows]
    left = 0.35 + max(map(len, labels)) * size * CHARACTER
    width = WIDTH - left - RIGHT
    took_in, took_unit = time_unit(timeline.iteration_ps)
    took = f"{timeline.iteration_ps / took_unit:.4g} {took_in}"
    said = f"{title}: {took}, bubble {bubble(stage_uses(timeline)):.1%}"
    said = fill(said, int(width / (9 * CHARACTER)))
    height = TOP + LINE * said.count("\n") + BOTTOM + len(rows) * ROW
    figure = new_figure(WIDTH, height)
    place = (left / WIDTH, BOTTOM / height, width / WIDTH, len(rows) * ROW / height)
    axes = figure.add_axes(place)
    for y, row in enumerate(rows):
        _draw(axes, y, row.passes, at, width)
    axes.set_yticks(range(len(rows)), labels, fontsize=size, parse_math=False)
    axes.set_xlim(0, at.shown_ps)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(labelsize=size, length=2)
    _times(axes, at)
    axes.set_title(said, fontsize=9, loc="left", pad=6, parse_math=False)
    _legend(figure, {one.letter for row in rows for one in row.passes}, height)
    note = _note(rows, at)
    figure.text(0.1 / WIDTH, 0.1 / height, note, fontsize=7, va="bottom", parse_math=False)
    return figure


def _times(axes: Axes, at: Clock) -> None:
    """Ticks of true times on both sides of the gap, and the gap itself."""
    from matplotlib.ticker import MaxNLocator

    name, unit = time_unit(at.end_ps)
    spans = [(0, at.until_ps), (at.from_ps, at.end_ps)] if at.cut else [(0, at.end_ps)]
    times = [
        float(time)
        for first, last in spans
        for time in MaxNLocator(8 // len(spans)).tick_values(first / unit, last / unit)
        if first <= time * unit <= last
    ]
    axes.set_xticks([at(round(time * unit)) for time in times], [f"{time:.6g}" for time in times])
    axes.set_xlabel(f"time [{name}]", fontsize=8)
    if at.cut:
        axes.axvspan(at.until_ps, at.until_ps + at.gap_ps, color="white", lw=0, zorder=3)
        middle = at.until_ps + at.gap_ps / 2
        axes.text(middle, sum(axes.get_ylim()) / 2, "…", ha="center", va="center", zorder=4)


def _draw(axes: Axes, y: int, found: Sequence[PassSpan], at: Clock, width: float) -> None:
    first = min((one.stage for one in found), default=0)
    several = any(one.version for one in found)
    axes.broken_barh([(0, at.shown_ps)], (y - 0.42, 0.84), facecolors=IDLE, lw=0)
    for one in filter(at.shows, found):
        dark, middle, light = PHASES[PHASE[one.letter]]
        face = (middle, dark, light)[one.micro_batch % 2 if one.stage == first else 2]
        face = middle if one.letter == "U" else face
        start, end = at.clipped(one)
        axes.broken_barh(
            [(start, end - start)],
            (y - 0.42, 0.84),
            facecolors=face,
            edgecolors="white" if one.stage == first else dark,
            lw=0.4,
        )
        text = f"{one.micro_batch}" + (f" v{one.version}" if several else "")
        room = (end - start) / at.shown_ps * width
        text = text if len(text) * NAME_SIZE * CHARACTER < room else f"{one.micro_batch}"
        if one.letter != "U" and len(text) * NAME_SIZE * CHARACTER < room:
            axes.text(
                (start + end) / 2,
                y,
                text,
                fontsize=NAME_SIZE,
                ha="center",
                va="center_baseline",
                color="white" if face == dark else "black",
            )


def _legend(figure: Figure, letters: set[str], height: float) -> None:
    from matplotlib.patches import Patch

    words = {"F": "forward", "B": "backward", "W": "gradients of weights", "U": "update"}
    words["B"] = "errors" if "W" in letters else "backward"
    handles = [
        Patch(facecolor=PHASES[PHASE[one]][1], label=words[one]) for one in "FBWU" if one in letters
    ]
    handles.append(Patch(facecolor=IDLE, label="idle or exchanging"))
    corner_legend(figure, handles, (1 - RIGHT / WIDTH, 0.02 / height), len(handles))


def _note(rows: Sequence[Row], at: Clock) -> str:
    said = ["numbers are micro-batches"]
    if any(one.version for row in rows for one in row.passes):
        said[0] += ", v the version of the weights"
    if at.cut:
        _, unit = time_unit(at.end_ps)
        ends = f"{at.until_ps / unit:.4g} to {at.from_ps / unit:.4g} {time_unit(at.end_ps)[0]}"
        said.append(f"the middle is left out: {ends}")
    return "\n".join(said)
