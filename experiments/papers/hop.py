"""Hop's claims (Luo et al., ASPLOS 2019) as measured here: no published number is at hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

from experiments.papers.figure import Figure, grid
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


def claims(slow: str) -> Figure:
    """Iterations a second of every variant on every graph, over standard's where all are alike."""

    def value(graph: str, variant: str) -> float:
        fair = trained("standard", graph, "alike").iterations_per_s
        return trained(variant, graph, slow).iterations_per_s / fair

    title = "Iterations a second over standard Hop's without slowdown"
    return Figure(title, "speed", grid("graph", GRAPHS, VARIANTS, value), SAID, ("graph",))


def gaps() -> Figure:
    """The furthest that anybody was ahead of the last worker, with one worker always slow."""

    def value(graph: str, variant: str) -> float:
        return max(trained(variant, graph, "one 4x slow").run.gaps)

    title = "The largest gap to the last worker, with one that is always 4x slow"
    return Figure(title, "gap", grid("graph", GRAPHS, VARIANTS, value), SAID[:1], ("graph",))


FIGURES: dict[str, Callable[[], Figure]] = {
    **{slow.replace(" ", "-"): partial(claims, slow) for slow in SLOWED},
    "gaps": gaps,
}
