"""AccPar's evaluation (Song et al., HPCA 2020): speedups, hierarchy and types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

from experiments.papers.figure import Figure, Row, grid
from experiments.studies.case import Case, plan_of
from experiments.studies.comparison import PUBLISHED_BATCH, compare, sweep_levels
from experiments.studies.published_values import averages
from experiments.studies.speedups import BASELINE, Comparison, messages
from hardware import load_array
from planners import PLANNERS
from simulator import PUBLISHED
from workloads import ZOO, load_network

MEAN = "Gmean"
LEVELS = range(2, 10)
DEEP, MAPPED = "vgg19", "alexnet"
MIXED, ALIKE = "accpar-mixed", "accpar-homogeneous"
COMPARED = [planner for planner in PLANNERS if planner != BASELINE]
CASE = f"batch {PUBLISHED_BATCH}, {PUBLISHED}"
NO_VALUES = ("The paper's values are not at hand: ours only.",)


@cache
def comparison(array: str) -> Comparison:
    """All planners on the nine networks."""
    result = compare(load_array(array), [load_network(name) for name in ZOO], list(PLANNERS))
    if not result.complete:
        raise KeyboardInterrupt
    return result


@cache
def on_levels(levels: int) -> Comparison:
    """All planners on the deep network, on 2^levels accelerators."""
    array, networks = load_array(MIXED), [load_network(DEEP)]
    (level,), _ = sweep_levels(array, [levels], networks, list(PLANNERS), PUBLISHED_BATCH)
    return level.result


def speedups(array: str) -> Figure:
    """A speedup figure: nine networks on one array, and their geometric means."""

    def value(network: str, planner: str) -> float:
        result = comparison(array)
        if network == MEAN:
            return result.geomean[planner]
        return next(row.speedup for row in result.of(planner) if row.network == network)

    def notes(_: Sequence[Row]) -> tuple[str, ...]:
        said = messages(comparison(array))
        return ("The paper's values of single networks are not at hand.", *said)

    paper = averages(load_array(array))
    theirs = {(MEAN, planner): value.speedup for planner, value in paper.items()}
    title = "Speedup over data parallelism"
    points = grid("network", (*ZOO, MEAN), COMPARED, value, theirs)
    return Figure(title, "speedup", points, notes, case=f"{array}, {CASE}")


def hierarchy() -> Figure:
    """Speedup against the number of levels, for one network."""

    def value(levels: int, planner: str) -> float:
        return on_levels(levels).geomean[planner]

    title = f"Hierarchy: {DEEP}, speedup over data parallelism on 2^levels accelerators, mixed"
    points = grid("levels", LEVELS, COMPARED, value, network=DEEP)
    return Figure(title, "speedup", points, NO_VALUES, ("levels",), f"{MIXED}, {CASE}", "lines")


def types() -> Figure:
    """AlexNet's types at every level of the homogeneous array."""

    def row() -> Row:
        plan = plan_of(Case(load_network(MAPPED), "accpar", load_array(ALIKE), PUBLISHED_BATCH))
        levels = [split.types for split in plan.levels() or []]
        return {
            "network": MAPPED,
            "levels": ["".join(str(int(kind)) for kind in level) for level in levels],
            "types": [[str(kind) for kind in level] for level in levels],
            "published": None,
            "same": None,
        }

    title = "AlexNet's types, level by level: a digit for each layer, 0, 1, 2 for types I, II, III"
    return Figure(title, "types", [row], NO_VALUES, case=f"{ALIKE}, {CASE}", shape="plans")


FIGURES: dict[str, Callable[[], Figure]] = {
    "mixed": partial(speedups, MIXED),
    "homogeneous": partial(speedups, ALIKE),
    "hierarchy": hierarchy,
    "types": types,
}
