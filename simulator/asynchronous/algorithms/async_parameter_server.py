"""Asynchronous parameter servers, and stale-synchronous ones: nobody's gradient waits for another.

A server reads one gradient after the other, in the order in which they are
sent to it, applies each by itself, and sends the weights back to its worker.
Others wait in its queue meanwhile.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar

import simpy

from simulator.asynchronous.algorithm import Algorithm, within
from simulator.asynchronous.run import Process, Run
from simulator.asynchronous.waiting import when
from simulator.engine.resources import Done


@dataclass(frozen=True)
class AsyncParameterServer(Algorithm):
    """Asynchronous parameter server: ``shards`` servers, each with a queue of gradients."""

    shards: int = 1
    source: ClassVar[str] = "textbook; Dean et al., Large scale distributed deep networks, 2012"

    @property
    def servers(self) -> int:  # noqa: D102
        return self.shards

    @property
    def most_ahead(self) -> int | None:
        """Iterations that one may be ahead of the last worker; None: as many as come."""
        return None

    def check(self, workers: int) -> None:  # noqa: ARG002, D102
        within("shards", self.shards, 1)

    def start(self, run: Run) -> None:  # noqa: D102
        shards = [_Shard(run, s, self.shards) for s in range(self.shards)]
        for shard in shards:
            run.machine.process(shard.serve(), run.n + shard.number)
        most = self.most_ahead

        def worker(w: int) -> Process:
            iteration = 0
            while True:
                step = run.step(w, iteration)
                yield step
                pulled = [shard.push(w, iteration, step) for shard in shards]
                for event in pulled:
                    yield from run.wait(w, event, "the server")
                iteration += 1
                before = run.slowest
                run.finish(w)
                if most is not None:
                    if run.slowest > before:
                        for other in range(run.n):
                            run.ring(other)
                    yield from run.until(
                        w,
                        lambda: iteration - run.slowest <= most,  # noqa: B023
                        "the last worker",
                        lambda: [v for v in range(run.n) if run.at[v] == run.slowest],
                    )

        for w in range(run.n):
            run.work(w, worker(w))


@dataclass(frozen=True)
class StaleSynchronous(AsyncParameterServer):
    """Stale-synchronous: asynchronous, but nobody more than ``bound`` ahead of the last worker."""

    bound: int = 3
    source: ClassVar[str] = (
        "Ho et al., More effective distributed ML via a stale synchronous parallel server, 2013"
    )

    @property
    def most_ahead(self) -> int | None:  # noqa: D102
        return self.bound

    def check(self, workers: int) -> None:  # noqa: D102
        super().check(workers)
        within("bound", self.bound, 0)


@dataclass
class _Shard:
    """One server: its queue, its version, and the version of it that each worker has."""

    run: Run
    number: int
    shards: int
    version: int = 0
    has: dict[int, int] = field(default_factory=dict)
    queue: deque[tuple[int, int, Done, simpy.Event]] = field(default_factory=deque)
    idle: simpy.Event | None = None

    def __post_init__(self) -> None:
        cluster, n = self.run.cluster, self.run.n
        size = cluster.gradient_bytes / self.shards
        self._push = [cluster.push(w, self.number, size) for w in range(n)]
        size = cluster.model_bytes / self.shards
        self._pull = [cluster.pull(w, self.number, size) for w in range(n)]
        self._update = cluster.server_update(self.number, size, 1)

    def push(self, w: int, iteration: int, step: Done) -> simpy.Event:
        """Stand in the queue; the event fires when the new weights are there."""
        pulled = self.run.env.event()
        self.queue.append((w, iteration, step, pulled))
        if self.idle is not None:
            idle, self.idle = self.idle, None
            idle.succeed()
        return pulled

    def serve(self) -> Process:
        """One gradient after the other; weights go back while the next one comes."""
        run, server = self.run, self.run.n + self.number
        while True:
            if not self.queue:
                self.idle = run.env.event()
                yield self.idle
            w, iteration, step, pulled = self.queue.popleft()
            push = run.alone(w, self._push[w], iteration, [step])
            yield push
            update = run.machine.compute(server, self._update, self.version, [push])
            yield update
            if self.number == 0:
                run.staleness[self.version - self.has.get(w, 0)] += 1
            self.version += 1
            run.note("update at server", (w,), self.number)
            self.has[w] = self.version
            run.note("pull", w, self.number)
            back = run.alone(w, self._pull[w], iteration, [update])
            when(back, pulled.succeed)
