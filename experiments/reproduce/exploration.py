"""HyPar's Figs. 9 and 10: all plans of a part of the space around HyPar's, one by one.

What the paper varies and what it holds is recalled, not verified: Lenet-c, all
plans of H1 and of H4 with H2 and H3 as HyPar has them; VGG-A, conv5_2 and the
first fully connected layer at all four levels, everything else as HyPar has it.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from experiments.reproduce.figure import Figure, Row
from hardware import Array
from planners import Objective, PartitionType, Plan
from planners.hierarchy.fixed_types import plan_of_types
from workloads import Network

Levels = list[list[int]]
"""A level a list, a layer a digit: 0 data parallel, 1 model parallel."""

BITS = tuple(itertools.product((0, 1), repeat=4))
POINTS = len(BITS) ** 2


@dataclass(frozen=True, slots=True)
class Exploration:
    """A network and two groups of four choices, each a (level, layer); the rest stays HyPar's."""

    network: str
    axes: tuple[str, str]
    places: tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]
    held: str


STUDIES = {
    "9": Exploration(
        "Lenet-c",
        ("h1", "h4"),
        (tuple((0, v) for v in range(4)), tuple((3, v) for v in range(4))),
        "all plans of H1 and of H4, with H2 and H3 held at HyPar's",
    ),
    "10": Exploration(
        "VGG-A",
        ("conv5_2", "fc1"),
        (tuple((h, 7) for h in range(4)), tuple((h, 8) for h in range(4))),
        "conv5_2 and fc1 at H1 to H4, with the other layers held at HyPar's",
    ),
}


def levels_of(plan: Plan) -> Levels:
    """A plan's digits."""
    return [[int(kind) for kind in split.types] for split in plan.levels() or []]


def plan(network: Network, array: Array, batch: int, levels: Levels, objective: Objective) -> Plan:
    """The plan with these digits."""
    types = [[PartitionType(digit) for digit in level] for level in levels]
    return plan_of_types(network, array, batch, types, objective)


def points(study: Exploration, chosen: Levels) -> Iterator[tuple[tuple[str, str], Levels]]:
    """Every combination of the two groups' digits, and the whole plan with it."""
    for first, second in itertools.product(BITS, BITS):
        levels = [list(level) for level in chosen]
        for digits, places in zip((first, second), study.places, strict=True):
            for digit, (level, layer) in zip(digits, places, strict=True):
                levels[level][layer] = digit
        yield ("".join(map(str, first)), "".join(map(str, second))), levels


def explore(
    key: str, study: Exploration, chosen: Levels, height: Callable[[Levels], float]
) -> Figure:
    """All points with their heights; HyPar's own is marked."""
    rows: list[Row] = []
    for (first, second), levels in points(study, chosen):
        labels = {study.axes[0]: first, study.axes[1]: second}
        rows.append(labels | {"ours": height(levels), "hypar": levels == chosen})
    heights = [row["ours"] for row in rows]
    (own,) = (row["ours"] for row in rows if row["hypar"])
    above = sum(other > own for other in heights)
    notes = (
        f"What is varied is recalled, not verified: {study.held}. The paper's values are not at "
        "hand.",
        f"{len(rows)} plans, {min(heights):.3g} to {max(heights):.4g}, median "
        f"{statistics.median(heights):.3g}; HyPar's own plan {own:.4g}, "
        + (f"{above} are faster." if above else "none is faster."),
    )
    title = f"Exploration: {study.network}, performance over data parallelism, {study.held}"
    return Figure(key, title, "map", "performance", tuple(rows), notes, study.axes)
