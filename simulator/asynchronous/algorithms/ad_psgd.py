"""AD-PSGD: a worker averages its model with one random neighbour's, atomically.

Workers are on two sides of the graph; active ones ask passive ones, so that
nobody who is asked waits for anybody. A gradient is computed on the model as
it was before the average, and applied after it. An average holds both models:
whoever wants one of them waits, in the order of asking.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import simpy

from simulator.asynchronous.algorithm import Algorithm, both_ways, seeded
from simulator.asynchronous.run import Process, Run
from simulator.asynchronous.waiting import when
from simulator.engine.resources import Done


@dataclass(frozen=True)
class AdPsgd(Algorithm):
    """AD-PSGD: each averages with one random neighbour, and waits for nobody else.

    With ``overlap`` averages go on while gradients are computed. Without
    ``bipartite`` sides everybody asks anybody, holding its own model meanwhile: then
    some may wait for each other for ever.
    """

    overlap: bool = False
    bipartite: bool = True
    source: ClassVar[str] = "Lian et al., Asynchronous decentralized parallel SGD, ICML 2018"
    recalled: ClassVar[str] = (
        "the order of average and update (second-hand); that averages block is from Ripples/Prague"
    )
    graph: ClassVar[str] = "ring"
    together: ClassVar[bool] = False

    def start(self, run: Run) -> None:  # noqa: D102
        both_ways(run)
        even, across = run.graph.sides
        near = across if self.bipartite else run.graph.neighbours
        active = [bool(near[w]) and (not self.bipartite or w in even) for w in range(run.n)]
        models = [_Model() for _ in range(run.n)]
        pairs = _Pairs(run, models, holds_own=not self.bipartite)

        draws = [seeded(f"{run.seed} ad-psgd {w}") for w in range(run.n)]

        def iterate(w: int, iteration: int) -> Process:
            before = models[w].version
            step = run.step(w, iteration)
            if not (active[w] and self.overlap):
                yield step
            if active[w]:
                other = near[w][int(draws[w].random() * len(near[w]))]
                averaged = pairs.average(w, other, iteration, step)
                if self.overlap:
                    yield step
                yield from run.wait(w, averaged, "an average", (other,))
            else:
                free = run.env.event()
                models[w].request(free.succeed)
                yield from run.wait(w, free, "an average")
            run.note("update", w)
            run.staleness[models[w].version - before] += 1
            models[w].version += 1
            if not active[w]:
                models[w].release()
            run.finish(w)

        run.each(iterate)


class _Model:
    """A worker's model, which one at a time may change; ``version`` counts the changes."""

    def __init__(self) -> None:
        self.version = 0
        self._taken = False
        self._queue: deque[Callable[[], object]] = deque()

    def request(self, then: Callable[[], object]) -> None:
        """Do something once nobody else has it."""
        if self._taken:
            self._queue.append(then)
        else:
            self._taken = True
            then()

    def release(self) -> None:
        """Hand it to whoever asked first."""
        if self._queue:
            self._queue.popleft()()
        else:
            self._taken = False


class _Pairs:
    """Averages of two models, which hold both of them while they go on."""

    def __init__(self, run: Run, models: list[_Model], *, holds_own: bool) -> None:
        self._run, self._models, self._holds_own = run, models, holds_own

    def average(self, a: int, b: int, iteration: int, step: Done) -> simpy.Event:
        """Average two workers' models; the event fires when that is done."""
        averaged = self._run.env.event()
        models = self._models

        def ask() -> None:
            models[b].request(lambda: self._exchange(a, b, iteration, step, averaged))

        if self._holds_own:
            models[a].request(ask)
        else:
            ask()
        return averaged

    def _exchange(self, a: int, b: int, iteration: int, step: Done, averaged: simpy.Event) -> None:
        run = self._run
        if b in run.dead:  # it does not answer any more
            return
        after = [step] if step.callbacks is None else list[Done]()
        swap, key = run.cluster.swap(a, b), (a, iteration)
        run.together(b, swap, 2, iteration, (), key)
        meeting = run.together(a, swap, 2, iteration, after, key)
        when(meeting, lambda: self._averaged(a, b, averaged))

    def _averaged(self, a: int, b: int, averaged: simpy.Event) -> None:
        self._run.note("average", (a, b))
        for w in (a, b):
            self._models[w].version += 1
        self._models[b].release()
        if self._holds_own:
            self._models[a].release()
        averaged.succeed()
