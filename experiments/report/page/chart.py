"""Charts as inline SVG: they take the page's colours, and their text is text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.pictures.figures import places
from experiments.report.page.markup import Markup, escape, join, scrolling, tag

LEFT, RIGHT, TOP, BOTTOM = 64, 12, 18, 44
HEIGHT = 300
GROUP, BAR = 84, 16
LINES_WIDTH = 360
LONGEST = 13
DRAWABLE = (1e-99, 1e99)
"""What a scale can hold, its room included."""


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
        """1, 2 and 5 times powers of ten within; powers alone where those are many."""
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        factors = (1, 2, 5) if len(decades) <= 4 else (1,)
        values = [float(f"{factor}e{decade}") for decade in decades for factor in factors]
        return [value for value in values if self.low <= value <= self.high]


def scale(values: Sequence[float], first: float, last: float, room: float = 1.25) -> Scale:
    """A scale with some room around positive values."""
    return Scale(min(values) / room, max(values) * room, first, last)


def bars(
    title: str,
    groups: Sequence[str],
    series: Mapping[str, Sequence[float]],
    marks: Mapping[str, float],
) -> Markup:
    """Grouped bars from 1 up or down; ``marks`` are the papers' values for the last group."""
    group = max(GROUP, BAR * len(series) + 20)
    width = LEFT + RIGHT + group * len(groups)
    values = [1.0, *marks.values(), *(value for row in series.values() for value in row)]
    y = scale(values, HEIGHT - BOTTOM, TOP)
    parts = [_grid_across(y, width), _line(LEFT, y(1), width - RIGHT, y(1), "base")]
    place = places(list(series))
    for g, label in enumerate(groups):
        start = LEFT + g * group + (group - BAR * len(series)) / 2
        for i, (name, heights) in enumerate(series.items()):
            bar = _bar(start + i * BAR, y, heights[g], place[name], f"{name}, {label}")
            parts.append(bar)
            if name in marks and g == len(groups) - 1:
                at = y(marks[name])
                parts.append(_line(start + i * BAR - 1, at, start + (i + 1) * BAR - 1, at, "mark"))
        parts.append(_text(LEFT + (g + 0.5) * group, HEIGHT - BOTTOM + 18, _short(label)))
    parts.append(_label_up("speedup over data parallelism"))
    return _figure(title, width, parts, list(series), "the paper's average" if marks else None)


def lines(
    title: str, across: str, up: str, series: Mapping[str, Sequence[tuple[float, float]]]
) -> Markup:
    """Points on two logarithmic axes, joined where no two of a series share a place."""
    points = [point for row in series.values() for point in row]
    x = scale([x for x, _ in points], LEFT, LINES_WIDTH - RIGHT, 1.1)
    y = scale([y for _, y in points], HEIGHT - BOTTOM, TOP)
    parts = [_grid_across(y, LINES_WIDTH), _label_up(up)]
    for tick in x.ticks():
        parts.append(_line(x(tick), TOP, x(tick), HEIGHT - BOTTOM, "grid"))
        parts.append(_text(x(tick), HEIGHT - BOTTOM + 15, f"{tick:g}"))
    parts.append(_text(LINES_WIDTH / 2, HEIGHT - 8, across))
    place = places(list(series))
    for name, row in series.items():
        i = place[name]
        points = sorted((x(a), y(b)) for a, b in row)
        if len({a for a, _ in row}) == len(row) > 1:
            path = " ".join(f"{a},{b}" for a, b in points)
            parts.append(tag("polyline", points=path, class_=f"s{i}"))
        parts += [_dot(x(a), y(b), i, f"{name}: {b:.6g} at {a:g}") for a, b in row]
    return _figure(title, LINES_WIDTH, parts, list(series), None)


def _short(name: str) -> str:
    """A name that leaves room for its neighbours; the bars' titles have all of it."""
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"


def _bar(left: float, y: Scale, height: float, i: int, name: str) -> Markup:
    top, foot = sorted((y(height), y(1)))
    shape = tag(
        "rect",
        tag("title", f"{name}: {height:.3f}"),
        x=left,
        y=top,
        width=BAR - 2,
        height=max(round(foot - top, 2), 0.5),
        class_=f"s{i}",
    )
    place = f"translate({left + BAR / 2 + 2},{top - 4}) rotate(-90)"
    return join((shape, tag("text", f"{height:.3g}", transform=place, class_="value")))


def _dot(x: float, y: float, i: int, name: str) -> Markup:
    return tag("circle", tag("title", name), cx=x, cy=y, r=3.5, class_=f"s{i}")


def _grid_across(y: Scale, width: float) -> Markup:
    parts = []
    for tick in y.ticks():
        parts.append(_line(LEFT, y(tick), width - RIGHT, y(tick), "grid"))
        parts.append(tag("text", f"{tick:g}", x=LEFT - 6, y=y(tick) + 4, class_="left"))
    return join(parts)


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> Markup:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, class_=kind)


def _text(x: float, y: float, text: str) -> Markup:
    return tag("text", text, x=x, y=y)


def _label_up(text: str) -> Markup:
    return tag("text", text, transform=f"translate(13,{HEIGHT / 2}) rotate(-90)")


def _figure(
    title: str, width: float, parts: Sequence[Markup], names: Sequence[str], mark: str | None
) -> Markup:
    size = {"width": width, "height": HEIGHT, "viewBox": f"0 0 {width} {HEIGHT}"}
    picture = tag("svg", *parts, role="img", aria_label=title, class_="chart", **size)
    keys = [tag("li", tag("span", class_=f"key s{i}"), name) for name, i in places(names).items()]
    if mark:
        keys.append(tag("li", tag("span", class_="key mark"), mark))
    caption = tag("figcaption", escape(title), tag("ul", *keys, class_="legend"))
    return tag("figure", caption, scrolling(title, picture))
