"""Hop's claims (Luo et al., ASPLOS 2019) as measured here: no published number is at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from experiments.reproduce.figure import Figure, Row, beside
from experiments.studies.training.run import Trained, Training
from hardware import load_array
from simulator import DEPLOYED
from workloads import load_network

ARRAY, NETWORK, WORKERS, ITERATIONS, BATCH = "hop-16", "resnet18", 16, 150, 128
GRAPHS = ("ring", "ring-based", "double-ring")
SLOWED: dict[str, tuple[str, ...]] = {
    "alike": (),
    "random 6x": (f"random:{1 / WORKERS}:6",),
    "one 4x slow": ("worker:0:4",),
}
VARIANTS = {
    "standard": "hop",
    "notify-ack": "hop:protocol=notify-ack",
    "backup": "hop:tokens=3:backup=1",
    "staleness": "hop:tokens=3:staleness=3",
    "skipping": "hop:tokens=3:backup=1:skip=10",
}
Progress = Callable[[str], None]
SAID = (
    "No published number is at hand: ours only. Recalled: 16 CPU workers, 1 Gbit/s, the graphs and "
    "the slowdowns; assumed: the workers' speed, the network and the options.",
    "Backup and staleness work off random delays later, and do nothing against a worker that is "
    "always slow; skipping does.",
)


@cache
def trained(variant: str, graph: str, slow: str) -> Trained:
    """One run."""
    return Training(
        load_network(NETWORK),
        VARIANTS[variant],
        load_array(ARRAY),
        WORKERS,
        ITERATIONS,
        DEPLOYED,
        BATCH,
        slowdowns=SLOWED[slow],
        graph=graph,
    ).run()


def claims(slow: str) -> Callable[[Progress], Figure]:
    """Iterations a second of every variant on every graph, over standard's where all are alike."""

    def figure(progress: Progress) -> Figure:
        rows: list[Row] = []
        for graph in GRAPHS:
            fair = trained("standard", graph, "alike").iterations_per_s
            for variant in VARIANTS:
                rate = trained(variant, graph, slow).iterations_per_s / fair
                rows.append(beside(rate, None, graph=graph, planner=variant))
            progress(f"{graph}, {slow}")
        title = "Iterations a second over standard Hop's without slowdown"
        return Figure(slow.replace(" ", "-"), title, "bars", "speed", tuple(rows), SAID, ("graph",))

    return figure


def gaps(progress: Progress) -> Figure:
    """The furthest that anybody was ahead of the last worker, with one worker always slow."""
    rows: list[Row] = []
    for graph in GRAPHS:
        for variant in VARIANTS:
            gap = max(trained(variant, graph, "one 4x slow").run.gaps)
            rows.append(beside(gap, None, graph=graph, planner=variant))
        progress(f"{graph}, gaps")
    title = "The largest gap to the last worker, with one that is always 4x slow"
    return Figure("gaps", title, "bars", "gap", tuple(rows), SAID[:1], ("graph",))


FIGURES: dict[str, Callable[[Progress], Figure]] = {
    **{slow.replace(" ", "-"): claims(slow) for slow in SLOWED},
    "gaps": gaps,
}


def cases(keys: Sequence[str]) -> int:
    """How often ``progress`` will be told."""
    return len(keys) * len(GRAPHS)


def reproduce(keys: Sequence[str], progress: Progress = lambda done: None) -> list[Figure]:
    """The figures asked for."""
    return [FIGURES[key](progress) for key in keys]
