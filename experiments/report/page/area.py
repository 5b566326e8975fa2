"""Areas one upon the other, over time, as inline SVG."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby, pairwise

from experiments.pictures.gantt import time_unit
from experiments.report.page.markup import Markup, scrolling, tag

LEFT, RIGHT, TOP, BOTTOM = 64, 20, 12, 40
WIDTH, HEIGHT = 720, 260
ROOM = 1.05
"""Of the highest value: how far the axis goes."""
NEAR = 1.5
"""Times the highest value: a limit that is nearer is drawn."""

Values = tuple[float, ...]


def stacked(
    title: str,
    names: Sequence[str],
    rest: Values,
    steps: Iterable[tuple[int, Values]],
    end_ps: int,
    limit: float,
) -> Markup:
    """Values (one for each name) from a time (picoseconds) on until the next; ``rest`` before it.

    Of what falls into one pixel the highest sum is drawn. ``limit`` is a line, where it is near.
    """
    columns = in_columns(rest, steps, end_ps, WIDTH - LEFT - RIGHT)
    highest = max(map(math.fsum, columns))
    near = limit <= NEAR * highest
    top = ROOM * max(highest, limit if near else 0.0) or 1.0

    def up(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top, 2)

    parts = [_across(value, up(value)) for value in ticks(top)]
    shown = [i for i in range(len(names)) if any(values[i] for values in columns)]
    for i in shown:
        shape = _shape(columns, i, up)
        parts.append(tag("polygon", tag("title", names[i]), points=shape, class_=f"s{i}"))
    if near:
        parts.append(_line(up(limit), "mark"))
    parts += _times(end_ps)
    place = f"translate(13,{(HEIGHT - BOTTOM) / 2}) rotate(-90)"
    parts.append(tag("text", "GiB of a core", transform=place))
    size = {"width": WIDTH, "height": HEIGHT, "viewBox": f"0 0 {WIDTH} {HEIGHT}"}
    picture = tag("svg", *parts, role="img", aria_label=title, class_="chart areas", **size)
    keys = [tag("li", tag("span", class_=f"key s{i}"), names[i]) for i in shown]
    if near:
        keys.append(tag("li", tag("span", class_="key mark"), "capacity"))
    caption = tag("figcaption", title, tag("ul", *keys, class_="legend"))
    return tag("figure", caption, scrolling(title, picture))


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


def _shape(columns: Sequence[Values], name: int, up: Callable[[float], float]) -> str:
    """The outline of one area: along its upper edge, and back along its lower one."""
    edges = [
        [
            f"{x},{up(height)}"
            for first, last, height in _level([math.fsum(v[:until]) for v in columns])
            for x in (LEFT + first, LEFT + last)
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


def _across(value: float, y: float) -> Markup:
    text = tag("text", f"{value:g}", x=LEFT - 6, y=y + 4, class_="left")
    return Markup(_line(y, "grid") + text)


def _line(y: float, kind: str) -> Markup:
    return tag("line", x1=LEFT, y1=y, x2=WIDTH - RIGHT, y2=y, class_=kind)


def _times(end_ps: int) -> list[Markup]:
    """Ticks of time, and the unit below them."""
    unit, each = time_unit(end_ps)
    scale = (WIDTH - LEFT - RIGHT) / max(end_ps / each, 1e-12)
    parts = [
        tag("text", f"{at:g}", x=round(LEFT + at * scale, 2), y=HEIGHT - BOTTOM + 15)
        for at in ticks(end_ps / each or 1.0)
    ]
    return [*parts, tag("text", f"time [{unit}]", x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 8)]
