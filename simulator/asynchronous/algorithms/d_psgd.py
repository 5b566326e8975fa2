"""D-PSGD: compute, then average with the neighbours of a graph, waiting for them alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from simulator.asynchronous.algorithm import Algorithm, both_ways
from simulator.asynchronous.run import Process, Run
from simulator.asynchronous.waiting import when


@dataclass(frozen=True)
class DPsgd(Algorithm):
    """D-PSGD: everyone's model goes to its neighbours, and the mean of theirs is taken."""

    source: ClassVar[str] = "Lian et al., Can decentralized algorithms outperform …, NeurIPS 2017"
    recalled: ClassVar[str] = "that the local update comes before the average (second-hand)"
    graph: ClassVar[str] = "ring"

    def start(self, run: Run) -> None:  # noqa: D102
        both_ways(run)
        cluster, near, weights = run.cluster, run.graph.neighbours, run.graph.weights
        sends = [
            cluster.send(w, near[w], cluster.model_bytes, "model") if near[w] else None
            for w in range(run.n)
        ]
        came = [dict[int, set[int]]() for _ in range(run.n)]

        def arrive(w: int, iteration: int) -> None:
            for other in near[w]:
                came[other].setdefault(iteration, set()).add(w)
                run.ring(other)

        def iterate(w: int, iteration: int) -> Process:
            step = run.step(w, iteration)
            yield step
            run.note("update", w)
            run.note("send", w, iteration)
            run.staleness[0] += 1
            if (send := sends[w]) is not None:
                sent = run.alone(w, send, iteration, [step])
                when(sent, partial(arrive, w, iteration))
                yield from run.until(
                    w,
                    lambda: len(came[w].get(iteration, ())) == len(near[w]),
                    "neighbours",
                    lambda: set(near[w]) - came[w].get(iteration, set()),
                )
                yield from run.wait(w, sent, "exchange")
                came[w].pop(iteration, None)
            parts = ((v, iteration, x) for v, x in sorted(weights[w].items()))
            run.note("mix", w, iteration, tuple(parts))
            run.finish(w)

        run.each(iterate)
