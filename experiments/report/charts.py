"""Charts as inline SVG: they take the page's colours, and their text is text."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby, pairwise
from typing import Any, NamedTuple

from experiments.pictures.figures import places
from experiments.pictures.gantt import time_unit

GROUP, BAR = 84, 16
LONGEST = 13
DRAWABLE = (1e-99, 1e99)
"""What a scale can hold, its room included."""
ROOM = 1.05
"""Of the highest value: how far the axis of areas goes."""
NEAR = 1.5
"""Times the highest value: a limit that is nearer is drawn."""

Values = tuple[float, ...]


class Shape(NamedTuple):
    """An SVG element: its text, or a title that is shown where one points at it."""

    tag: str
    attributes: dict[str, Any]
    text: str = ""
    title: str = ""


class Chart(NamedTuple):
    """Shapes with a legend: CSS class and name of each colour."""

    label: str
    width: float
    height: float
    shapes: Sequence[Shape]
    keys: Sequence[tuple[str, str]]
    caption: str = ""
    kind: str = "chart"


def shape(tag: str, text: str = "", title: str = "", **attributes: Any) -> Shape:
    """An element; ``class_`` is ``class``."""
    return Shape(tag, {key.rstrip("_"): value for key, value in attributes.items()}, text, title)


class Frame(NamedTuple):
    """A chart's size and its margins around what is drawn, in pixels."""

    width: float
    height: float = 300
    left: float = 64
    right: float = 12
    top: float = 18
    bottom: float = 44

    @property
    def foot(self) -> float:
        """Where the vertical axis begins."""
        return self.height - self.bottom

    def across(self, y: float, kind: str) -> Shape:
        """A line from side to side."""
        end = self.width - self.right
        return shape("line", x1=self.left, y1=y, x2=end, y2=y, class_=kind)

    def grid(self, ticks: Iterable[float], up: Callable[[float], float]) -> Iterator[Shape]:
        """Lines across at values, which stand beside them."""
        for tick in ticks:
            yield self.across(up(tick), "grid")
            yield shape("text", f"{tick:g}", x=self.left - 6, y=up(tick) + 4, class_="left")


def label_up(text: str, middle: float) -> Shape:
    """The name of the vertical axis."""
    return shape("text", text, transform=f"translate(13,{middle}) rotate(-90)")


@dataclass(frozen=True, slots=True)
class Scale:
    """A logarithmic axis from values to pixels."""

    low: float
    high: float
    first: float
    last: float

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        low = math.log(self.low)
        at = (math.log(value) - low) / (math.log(self.high) - low)
        return round(self.first + at * (self.last - self.first), 2)

    def ticks(self) -> list[float]:
        """1, 2 and 5 times powers of ten within; powers alone where many, finer where few."""
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        factors = (1, 2, 5) if len(decades) <= 4 else (1,)
        values = [float(f"{factor}e{decade}") for decade in decades for factor in factors]
        found = [value for value in values if self.low <= value <= self.high]
        return found if len(found) > 2 else [v for v in ticks(self.high) if v >= self.low]


def scale(values: Sequence[float], first: float, last: float, room: float = 1.25) -> Scale:
    """A scale with some room around positive values."""
    return Scale(min(values) / room, max(values) * room, first, last)


def bars(
    title: str,
    groups: Sequence[str],
    series: Mapping[str, Sequence[float]],
    marks: Mapping[str, float],
) -> Chart:
    """Grouped bars from 1 up or down; ``marks`` are the papers' values for the last group."""
    group = max(GROUP, BAR * len(series) + 20)
    frame = Frame(64 + 12 + group * len(groups))
    values = [1.0, *marks.values(), *(value for row in series.values() for value in row)]
    y = scale(values, frame.foot, frame.top)
    parts = [*frame.grid(y.ticks(), y), frame.across(y(1), "base")]
    place = places(list(series))
    for g, label in enumerate(groups):
        start = frame.left + g * group + (group - BAR * len(series)) / 2
        for i, (name, heights) in enumerate(series.items()):
            left = start + i * BAR
            parts += _bar(left, y, heights[g], place[name], f"{name}, {label}")
            if name in marks and g == len(groups) - 1:
                at, end = y(marks[name]), left + BAR - 1
                parts.append(shape("line", x1=left - 1, y1=at, x2=end, y2=at, class_="mark"))
        short = label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"
        parts.append(shape("text", short, x=frame.left + (g + 0.5) * group, y=frame.foot + 18))
    parts.append(label_up("speedup over data parallelism", frame.height / 2))
    keys = [*_keys(series), *([("mark", "the paper's average")] if marks else [])]
    return Chart(title, frame.width, frame.height, parts, keys, title)


def _bar(left: float, y: Scale, height: float, i: int, name: str) -> Iterator[Shape]:
    top, foot = sorted((y(height), y(1)))
    said, tall = f"{name}: {height:.3f}", max(round(foot - top, 2), 0.5)
    yield shape("rect", "", said, x=left, y=top, width=BAR - 2, height=tall, class_=f"s{i}")
    place = f"translate({left + BAR / 2 + 2},{top - 4}) rotate(-90)"
    yield shape("text", f"{height:.3g}", transform=place, class_="value")


def _keys(names: Iterable[str]) -> list[tuple[str, str]]:
    return [(f"s{i}", name) for name, i in places(list(names)).items()]


def lines(
    title: str, across: str, up: str, series: Mapping[str, Sequence[tuple[float, float]]]
) -> Chart:
    """Points on two logarithmic axes, joined where no two of a series share a place."""
    frame = Frame(360)
    points = [point for row in series.values() for point in row]
    x = scale([x for x, _ in points], frame.left, frame.width - frame.right, 1.1)
    y = scale([y for _, y in points], frame.foot, frame.top)
    parts = [*frame.grid(y.ticks(), y), label_up(up, frame.height / 2)]
    for tick in x.ticks():
        at = x(tick)
        parts.append(shape("line", x1=at, y1=frame.top, x2=at, y2=frame.foot, class_="grid"))
        parts.append(shape("text", f"{tick:g}", x=at, y=frame.foot + 15))
    parts.append(shape("text", across, x=frame.width / 2, y=frame.height - 8))
    for (name, row), (colour, _) in zip(series.items(), _keys(series), strict=True):
        if len({a for a, _ in row}) == len(row) > 1:
            path = " ".join(f"{a},{b}" for a, b in sorted((x(a), y(b)) for a, b in row))
            parts.append(shape("polyline", points=path, class_=colour))
        for a, b in row:
            said = f"{name}: {b:.6g} at {a:g}"
            parts.append(shape("circle", title=said, cx=x(a), cy=y(b), r=3.5, class_=colour))
    return Chart(title, frame.width, frame.height, parts, _keys(series), title)


def stacked(
    title: str,
    names: Sequence[str],
    rest: Values,
    steps: Iterable[tuple[int, Values]],
    end_ps: int,
    limit: float,
) -> Chart:
    """Areas one upon the other, over time: GiB of a core by class.

    Values (one for each name) hold from a time (picoseconds) on until the next; ``rest`` before
    it. Of what falls into one pixel the highest sum is drawn. ``limit`` is a line, where it is
    near.
    """
    frame = Frame(720, 260, right=20, top=12, bottom=40)
    columns = in_columns(rest, steps, end_ps, int(frame.width - frame.left - frame.right))
    highest = max(map(math.fsum, columns))
    near = limit <= NEAR * highest
    top = ROOM * max(highest, limit if near else 0.0) or 1.0

    def up(value: float) -> float:
        return round(frame.foot - (frame.foot - frame.top) * value / top, 2)

    parts = [*frame.grid(ticks(top), up)]
    keys = [(f"s{i}", name) for i, name in enumerate(names) if any(v[i] for v in columns)]
    for colour, name in keys:
        outline = _outline(columns, int(colour[1:]), up, int(frame.left))
        parts.append(shape("polygon", title=name, points=outline, class_=colour))
    if near:
        parts.append(frame.across(up(limit), "mark"))
        keys.append(("mark", "capacity"))
    parts += _times(frame, end_ps)
    parts.append(label_up("GiB of a core", frame.foot / 2))
    return Chart(title, frame.width, frame.height, parts, keys, title, "chart areas")


def in_columns(
    rest: Values, steps: Iterable[tuple[int, Values]], end_ps: int, count: int
) -> list[Values]:
    """Of each of so many equal parts of the time the values with the highest sum."""
    found: list[Values | None] = [None] * count
    whole = chain([(0, rest)], steps, [(end_ps, rest)])
    for (start_ps, values), (until_ps, _) in pairwise(whole):
        if start_ps == until_ps and values is rest:
            continue
        first, last = (min(at * count // max(end_ps, 1), count - 1) for at in (start_ps, until_ps))
        # what ends where a part begins is not in it
        last -= last > first and until_ps * count == last * end_ps
        for column in range(first, last + 1):
            before = found[column]
            if before is None or math.fsum(values) > math.fsum(before):
                found[column] = values
    return [rest if values is None else values for values in found]


def _outline(columns: Sequence[Values], name: int, up: Callable[[float], float], left: int) -> str:
    """The outline of one area: along its upper edge, and back along its lower one."""
    edges = [
        [
            f"{x},{up(height)}"
            for first, last, height in _level([math.fsum(v[:until]) for v in columns])
            for x in (left + first, left + last)
        ]
        for until in (name + 1, name)
    ]
    return " ".join([*edges[0], *reversed(edges[1])])


def _level(heights: Sequence[float]) -> Iterator[tuple[int, int, float]]:
    """Stretches of equal heights: first column, the one behind the last, and the height."""
    at = 0
    for height, some in groupby(heights):
        end = at + len(list(some))
        yield at, end, height
        at = end


def ticks(top: float) -> list[float]:
    """Round values from 0 to at most ``top``: 1, 2 or 5 times a power of ten apart, 3 to 7."""
    power = 10.0 ** math.floor(math.log10(top))
    apart = next(power * step for step in (5.0, 2.0, 1.0, 0.5, 0.2) if top / (power * step) >= 3.0)
    return [apart * i for i in range(math.floor(top / apart) + 1)]


def _times(frame: Frame, end_ps: int) -> Iterator[Shape]:
    """Ticks of time, and the unit below them."""
    unit, each = time_unit(end_ps)
    pixels = (frame.width - frame.left - frame.right) / max(end_ps / each, 1e-12)
    for at in ticks(end_ps / each or 1.0):
        yield shape("text", f"{at:,.10g}", x=round(frame.left + at * pixels, 2), y=frame.foot + 15)
    middle = (frame.left + frame.width - frame.right) / 2
    yield shape("text", f"time [{unit}]", x=middle, y=frame.height - 8)
