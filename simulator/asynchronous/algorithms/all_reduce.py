"""An all-reduce of everybody: of gradients in each step, or of models after several (local SGD)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from simulator.asynchronous.algorithm import Algorithm, within
from simulator.asynchronous.run import Process, Run


@dataclass(frozen=True)
class AllReduce(Algorithm):
    """All-reduce: the slowest worker's step, then the collective that is cheapest on the wires."""

    algorithm: str = "auto"
    source: ClassVar[str] = "textbook; Patarasuk and Yuan, JPDC 69(2) 2009, for the ring"

    def start(self, run: Run) -> None:  # noqa: D102
        everybody = tuple(range(run.n))
        update = partial(run.note, "update together", everybody)
        operation = run.cluster.all_reduce(
            everybody, run.cluster.gradient_bytes, "gradients", self.algorithm
        )

        def iterate(w: int, iteration: int) -> Process:
            step = run.step(w, iteration)
            yield step  # who dies meanwhile has no gradient to give
            sums = run.together(w, operation, run.n, iteration, [step], then=update)
            yield from run.exchanged(w, sums, everybody)
            run.staleness[0] += 1
            run.finish(w)

        run.each(iterate)


@dataclass(frozen=True)
class Hierarchical(AllReduce):
    """Hierarchical all-reduce: reduced inside nodes, then between them, then gathered inside."""

    algorithm: str = "hierarchical"


@dataclass(frozen=True)
class LocalSgd(Algorithm):
    """Local SGD: after every ``steps`` iterations an all-reduce of the models."""

    steps: int = 4
    algorithm: str = "auto"
    source: ClassVar[str] = "Stich, Local SGD converges fast and communicates little, ICLR 2019"

    def check(self, workers: int) -> None:  # noqa: ARG002, D102
        within("steps", self.steps, 1)

    def start(self, run: Run) -> None:  # noqa: D102
        everybody = tuple(range(run.n))
        operation = run.cluster.all_reduce(
            everybody, run.cluster.model_bytes, "models", self.algorithm
        )
        average = partial(run.note, "average", everybody)

        def iterate(w: int, iteration: int) -> Process:
            step = run.step(w, iteration)
            yield step
            run.note("update", w)
            run.staleness[0] += 1
            done = iteration + 1
            if done % self.steps == 0:
                models = run.together(w, operation, run.n, done, [step], then=average)
                yield from run.exchanged(w, models, everybody)
            run.finish(w)

        run.each(iterate)
