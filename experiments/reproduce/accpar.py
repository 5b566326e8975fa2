"""AccPar's evaluation (Song et al., HPCA 2020): speedups, hierarchy and types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from experiments.reproduce.figure import Figure, Row, beside
from experiments.studies.case import Case, plan_of
from experiments.studies.comparison import PUBLISHED_BATCH, compare, sweep_levels
from experiments.studies.speedups import BASELINE, messages
from hardware import load_array
from planners import PLANNERS
from simulator import PUBLISHED
from workloads import ZOO, load_network

MEAN = "Gmean"
LEVELS = range(2, 10)
DEEP, MAPPED = "vgg19", "alexnet"

Progress = Callable[[str], None]


def speedups(array: str) -> Callable[[Progress], Figure]:
    """A speedup figure: nine networks on one array."""

    def figure(progress: Progress) -> Figure:
        networks = [load_network(name) for name in ZOO]
        result = compare(load_array(array), networks, list(PLANNERS), progress=progress)
        if not result.complete:
            raise KeyboardInterrupt
        rows = [
            beside(row.speedup, None, network=row.network, planner=row.planner)
            for row in result.rows
            if row.planner != BASELINE
        ]
        for planner, mean in result.geomean.items():
            if planner != BASELINE:
                paper = result.published.get(planner)
                theirs = None if paper is None else paper.speedup
                rows.append(beside(mean, theirs, network=MEAN, planner=planner))
        said = ("The paper's values of single networks are not at hand.", *messages(result))
        title = f"Speedup over data parallelism on {array}"
        return Figure(array.removeprefix("accpar-"), title, "bars", "speedup", tuple(rows), said)

    return figure


def hierarchy(progress: Progress) -> Figure:
    """Speedup against the number of levels, for one network."""
    array, planners = load_array("accpar-mixed"), list(PLANNERS)
    done = sweep_levels(array, LEVELS, [load_network(DEEP)], planners, PUBLISHED_BATCH, progress)
    if len(done) < len(LEVELS):
        raise KeyboardInterrupt
    rows = [
        beside(mean, None, network=DEEP, levels=level.levels, planner=planner)
        for level in done
        for planner, mean in level.result.geomean.items()
        if planner != BASELINE
    ]
    title = f"Hierarchy: {DEEP}, speedup over data parallelism on 2^levels accelerators, mixed"
    note = "The paper's values are not at hand: ours only."
    return Figure("hierarchy", title, "lines", "speedup", tuple(rows), (note,), ("levels",))


def alexnet(progress: Progress) -> Figure:
    """AlexNet's types at every level of the homogeneous array."""
    array = load_array("accpar-homogeneous")
    plan = plan_of(Case(load_network(MAPPED), "accpar", array, PUBLISHED_BATCH))
    progress(f"{MAPPED} types")
    types = [split.types for split in plan.levels() or []]
    row: Row = {
        "network": MAPPED,
        "levels": ["".join(str(int(kind)) for kind in level) for level in types],
        "types": [[str(kind) for kind in level] for level in types],
        "published": None,
        "same": None,
    }
    title = "AlexNet's types, level by level: a digit for each layer, 0, 1, 2 for types I, II, III"
    note = "The paper's values are not at hand: ours only."
    return Figure("types", title, "plans", "types", (row,), (note,))


FIGURES: dict[str, Callable[[Progress], Figure]] = {
    "mixed": speedups("accpar-mixed"),
    "homogeneous": speedups("accpar-homogeneous"),
    "hierarchy": hierarchy,
    "types": alexnet,
}


def cases(keys: Sequence[str]) -> int:
    """How often ``progress`` will be told."""
    planners = len(PLANNERS)
    each = {"hierarchy": len(LEVELS) * planners, "types": 1}
    return sum(each.get(key, len(ZOO) * planners) for key in keys)


def reproduce(keys: Sequence[str], progress: Progress = lambda done: None) -> list[Figure]:
    """The figures asked for."""
    array = {"homogeneous": "accpar-homogeneous", "types": "accpar-homogeneous"}
    return [
        replace(
            FIGURES[key](progress),
            case=f"{array.get(key, 'accpar-mixed')}, batch {PUBLISHED_BATCH}, {PUBLISHED}",
        )
        for key in keys
    ]
