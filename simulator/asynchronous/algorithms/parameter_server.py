"""Parameter servers: each of S servers has an equal shard of the weights.

Synchronous: a worker pushes a gradient to all of them and waits for new weights from all; a
round ends when enough have come (with backup workers late ones are dropped).

Asynchronous, and stale-synchronous: nobody's gradient waits for another. A server reads one
gradient after the other, in the order in which they are sent to it, applies each by itself,
and sends the weights back to its worker. Others wait in its queue meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import simpy

from simulator.asynchronous.algorithm import Algorithm, within
from simulator.asynchronous.run import Process, Run
from simulator.asynchronous.waiting import when
from simulator.engine.resources import Done, Meeting


@dataclass(frozen=True)
class ParameterServer(Algorithm):
    """Parameter server: ``shards`` servers sum everybody's gradients, then send new weights."""

    shards: int = 1
    source: ClassVar[str] = "textbook; Li et al., Scaling distributed machine learning, OSDI 2014"

    @property
    def late(self) -> int:
        """How many workers a round does not wait for."""
        return 0

    @property
    def servers(self) -> int:  # noqa: D102
        return self.shards

    def check(self, workers: int) -> None:  # noqa: D102
        within("shards", self.shards, 1)
        within("backup", self.late, 0, workers - 1, "or no round would wait for anybody")

    def start(self, run: Run) -> None:  # noqa: D102
        shards = [_RoundServer(run, s, self.shards, run.n - self.late) for s in range(self.shards)]

        def iterate(w: int, iteration: int) -> Process:
            step = run.step(w, iteration)
            yield step
            for shard in shards:
                shard.push(w, iteration, step)
            for shard in shards:
                yield from shard.wait(w)
            run.finish(w)

        run.each(iterate)


@dataclass(frozen=True)
class Backup(ParameterServer):
    """Backup workers: a round ends with all gradients but ``backup``; late ones are dropped."""

    backup: int = 1
    source: ClassVar[str] = (
        "Chen et al., Revisiting distributed synchronous SGD, 2016; shards decide by themselves"
    )

    @property
    def late(self) -> int:  # noqa: D102
        return self.backup


@dataclass(frozen=True)
class AsyncParameterServer(ParameterServer):
    """Asynchronous parameter server: ``shards`` servers, each with a queue of gradients."""

    source: ClassVar[str] = "textbook; Dean et al., Large scale distributed deep networks, 2012"
    together: ClassVar[bool] = False

    @property
    def most_ahead(self) -> int | None:
        """Iterations that one may be ahead of the last worker; None: as many as come."""
        return None

    def start(self, run: Run) -> None:  # noqa: D102
        shards = [_QueueServer(run, s, self.shards) for s in range(self.shards)]
        for shard in shards:
            run.machine.process(shard.serve(), run.n + shard.number)
        most, clocks = self.most_ahead, [0] * run.n

        def last() -> list[int]:
            return [v for v in range(run.n) if clocks[v] == min(clocks)]

        def iterate(w: int, iteration: int) -> Process:
            step = run.step(w, iteration)
            yield step
            answers = [shard.push(w, iteration, step, pulls=most is None) for shard in shards]
            for event in answers:
                yield from run.wait(w, event, "the server")
            if most is not None:
                before = min(clocks)
                clocks[w] += 1
                if min(clocks) > before:
                    for other in range(run.n):
                        run.ring(other)
                yield from run.until(
                    w, lambda: clocks[w] - min(clocks) <= most, "the last worker", last
                )
                for event in [shard.pull(w, iteration) for shard in shards]:
                    yield from run.wait(w, event, "the server")
            run.finish(w)

        run.each(iterate)


@dataclass(frozen=True)
class StaleSynchronous(AsyncParameterServer):
    """Stale-synchronous: nobody over ``bound`` iterations ahead of the last worker's applied ones.

    Who is too far ahead waits until the last one's gradient is applied, and then pulls weights
    that have it.
    """

    bound: int = 3
    source: ClassVar[str] = (
        "Ho et al., More effective distributed ML via a stale synchronous parallel server, 2013"
    )
    together: ClassVar[bool] = True

    @property
    def most_ahead(self) -> int | None:  # noqa: D102
        return self.bound

    def check(self, workers: int) -> None:  # noqa: D102
        super().check(workers)
        within("bound", self.bound, 0)


class _Server:
    """One server of a run: what moves to and from each worker, and its update."""

    def __init__(self, run: Run, number: int, shards: int, gradients: int) -> None:
        """The server has the ``number``-th of ``shards`` parts, updated by so many gradients."""
        self.run, self.number = run, number
        cluster, n = run.cluster, run.n
        sent, held = cluster.gradient_bytes / shards, cluster.model_bytes / shards
        self._push = [cluster.by_port("push", w, number, sent) for w in range(n)]
        self._pull = [cluster.by_port("pull", w, number, held) for w in range(n)]
        self._update = cluster.server_update(number, shards, gradients)


class _RoundServer(_Server):
    """A server's round, and whose gradients have come for it; ``enough`` end it."""

    def __init__(self, run: Run, number: int, shards: int, enough: int) -> None:
        super().__init__(run, number, shards, enough)
        self.enough = enough
        self.round = 0
        self.updated = 0
        """The last round whose update is done: a next one may have begun."""
        self.came: list[int] = []
        self.last: Done | None = None
        """The last update."""
        self.tag: dict[int, int] = {}
        """The round whose weights each worker has."""
        self.pulled: dict[int, simpy.Event] = {}

    def push(self, w: int, iteration: int, step: Done) -> None:
        """Send a gradient; what comes back fires ``pulled``."""
        self.pulled[w] = self.run.env.event()
        sent = self.run.alone(w, self._push[w], iteration, [step])
        when(sent, lambda: self._arrived(w, iteration, sent))

    def wait(self, w: int) -> Process:
        """Until a worker has the new weights of this shard."""

        def missing() -> list[int]:
            return [v for v in range(self.run.n) if v not in self.came]

        yield from self.run.wait(w, self.pulled[w], "the server", missing)

    def _arrived(self, w: int, iteration: int, sent: Done) -> None:
        if self.tag.get(w, 0) < self.round:  # too late: dropped, and the newest weights go back
            self.run.note("drop", w, self.number)
            if self.last is None or self.updated == self.round:
                self._send(w, iteration, [sent])
            else:
                when(self.last, partial(self._send, w, iteration, [self.last]))
            return
        self.came.append(w)
        if len(self.came) == self.enough:
            came, self.came = self.came, []
            self.round += 1
            server = self.run.n + self.number
            self.last = update = self.run.machine.compute(server, self._update, self.round, [sent])
            round_ = self.round
            when(update, lambda: self._updated(came, round_, iteration, update))

    def _updated(self, came: list[int], round_: int, iteration: int, update: Done) -> None:
        self.updated = round_
        self.run.note("update at server", tuple(sorted(came)), self.number)
        self.run.staleness[0] += len(came) if self.number == 0 else 0
        for w in came:
            self._send(w, iteration, [update])

    def _send(self, w: int, iteration: int, after: list[Done]) -> None:
        self.tag[w] = self.updated
        self.run.note("pull", w, self.number)
        pulled = self.pulled[w]
        sent = self.run.alone(w, self._pull[w], iteration, after)
        when(sent, pulled.succeed)


class _QueueServer(_Server):
    """A server's queue of gradients, its version, and the one that each worker has."""

    def __init__(self, run: Run, number: int, shards: int) -> None:
        super().__init__(run, number, shards, 1)
        self.version = 0
        self.has: dict[int, int] = {}
        self.queue: deque[tuple[int, int, Done, bool, simpy.Event]] = deque()
        self.idle: simpy.Event | None = None

    def push(self, w: int, iteration: int, step: Done, *, pulls: bool) -> simpy.Event:
        """Stand in the queue; the event fires when the gradient is applied.

        Where a worker ``pulls`` at once, when the new weights are there.
        """
        answer = self.run.env.event()
        self.queue.append((w, iteration, step, pulls, answer))
        if self.idle is not None:
            idle, self.idle = self.idle, None
            idle.succeed()
        return answer

    def pull(self, w: int, iteration: int, after: Sequence[Done] = ()) -> Meeting:
        """Send a worker the weights as they are."""
        self.has[w] = self.version
        self.run.note("pull", w, self.number)
        return self.run.alone(w, self._pull[w], iteration, after)

    def serve(self) -> Process:
        """One gradient after the other; weights go back while the next one comes."""
        run, server = self.run, self.run.n + self.number
        while True:
            if not self.queue:
                self.idle = run.env.event()
                yield self.idle
            w, iteration, step, pulls, answer = self.queue.popleft()
            push = run.alone(w, self._push[w], iteration, [step])
            yield push
            update = run.machine.compute(server, self._update, self.version, [push])
            yield update
            if self.number == 0:
                run.staleness[self.version - self.has.get(w, 0)] += 1
            self.version += 1
            run.note("update at server", (w,), self.number)
            if pulls:
                when(self.pull(w, iteration, [update]), answer.succeed)
            else:
                answer.succeed()
