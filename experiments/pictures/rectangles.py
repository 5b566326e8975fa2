"""The geometry of a lane: which bars it shows at a given scale, and where names fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from experiments.pictures.figures import CHARACTER
from experiments.pictures.tracks import Slice


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


class Name(NamedTuple):
    """A layer's name ``inside`` its bar (``x`` is the middle) or beside it (``x`` is the left)."""

    x: float
    layer: str
    bar: Bar
    inside: bool


def bars(slices: Iterable[Slice], inches_per_ps: float, pixel: float) -> list[Bar]:
    """The bars of a lane, by start; ``pixel`` is its width in inches.

    What takes no time is not shown. However many slices there are, there are
    at most twice as many bars as pixels.
    """
    found: list[Bar] = []
    longest: dict[int, Slice] = {}
    for done in slices:
        start, end, operation, _ = done
        width = (end - start) * inches_per_ps
        if width >= pixel:
            at = start * inches_per_ps
            found.append(
                Bar(at, width, operation.phase, operation.kind, operation.layer, mark=False)
            )
        elif width > 0:
            place = int(start * inches_per_ps / pixel)
            old = longest.get(place)
            if old is None or old.end_ps - old.start_ps < end - start:
                longest[place] = done
    for place, done in longest.items():
        operation = done.operation
        found.append(
            Bar(place * pixel, pixel, operation.phase, operation.kind, operation.layer, mark=True)
        )
    return sorted(found)


def names(row: Sequence[Bar], width: float, size: float) -> list[Name]:
    """Names of ``size`` points where there is room: in a bar, else between it and the next."""
    found: list[Name] = []
    nexts = [*(bar.start for bar in row[1:]), width]
    for bar, after in zip(row, nexts, strict=False):  # an idle lane has no bar, and one end
        needed = len(bar.layer) * size * CHARACTER + 0.05
        end = bar.start + bar.width
        if needed < bar.width:
            found.append(Name(bar.start + bar.width / 2, bar.layer, bar, inside=True))
        elif needed < after - end:
            found.append(Name(end + 0.025, bar.layer, bar, inside=False))
    return found
