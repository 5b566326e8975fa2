"""Designs as points: what each is worth against its area, and which are beaten by no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.pictures.figures import LEGEND_SIZE, panels, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Point = tuple[float, float]
"""Area (mm2) and worth."""


def front(points: Sequence[Point]) -> list[Point]:
    """Those of which no other has as little area and is worth more, by area."""
    best: list[Point] = []
    for area, worth in sorted(set(points), key=lambda point: (point[0], -point[1])):
        if not best or worth > best[-1][1]:
            best.append((area, worth))
    return best


def pareto(points: Sequence[Point], base: Point, winner: Point, aim: str, title: str) -> Figure:
    """All points, the front as steps, the base design and the winner (its estimate)."""
    figure, (axes,) = panels(6.4, 4.2)
    areas, worths = zip(*points, strict=True)
    axes.scatter(areas, worths, s=9, color="#bbbbbb", label="evaluated")
    edge = front(points)
    axes.step(
        [area for area, _ in edge],
        [worth for _, worth in edge],
        where="post",
        color="#4477aa",
        lw=1.5,
        label="Pareto front",
    )
    axes.plot(*base, "ks", ms=6, label="base design")
    axes.plot(*winner, "*", ms=13, color="#aa3377", label="winner")
    axes.set_xlabel("area of a chip [mm2]")
    axes.set_ylabel(f"{aim.replace('-', ' ')} over the base design")
    axes.set_title(plain(title), fontsize=10)
    axes.grid(lw=0.3)
    axes.set_axisbelow(True)
    axes.legend(fontsize=LEGEND_SIZE, loc="best")
    return figure
