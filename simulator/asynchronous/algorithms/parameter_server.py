"""Synchronous parameter servers, and with backup workers: a round ends when enough have come.

Each of S servers has an equal shard of the weights. A worker pushes a gradient to all of
them and waits for new weights from all.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import simpy

from simulator.asynchronous.algorithm import Algorithm, within
from simulator.asynchronous.run import Process, Run
from simulator.asynchronous.waiting import when
from simulator.engine.operations import Operation
from simulator.engine.resources import Done


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
        shards = [_Shard(run, s, self.shards, run.n - self.late) for s in range(self.shards)]

        def worker(w: int) -> Process:
            iteration = 0
            while True:
                step = run.step(w, iteration)
                yield step
                for shard in shards:
                    shard.push(w, iteration, step)
                for shard in shards:
                    yield from shard.wait(w)
                run.finish(w)
                iteration += 1

        for w in range(run.n):
            run.work(w, worker(w))


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


@dataclass
class _Shard:
    """One server: the round that it is in, and whose gradients have come for it."""

    run: Run
    number: int
    shards: int
    enough: int
    round: int = 0
    updated: int = 0
    """The last round whose update is done: a next one may have begun."""
    came: list[int] = field(default_factory=list)
    tag: dict[int, int] = field(default_factory=dict)
    """The round whose weights each worker has."""
    pulled: dict[int, simpy.Event] = field(default_factory=dict)

    def __post_init__(self) -> None:
        cluster, n = self.run.cluster, self.run.n
        size = cluster.gradient_bytes / self.shards
        self._push = [cluster.push(w, self.number, size) for w in range(n)]
        size = cluster.model_bytes / self.shards
        self._pull = [cluster.pull(w, self.number, size) for w in range(n)]
        self._update: Operation = cluster.server_update(self.number, size, self.enough)

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
            self._send(w, iteration, [sent])
            return
        self.came.append(w)
        if len(self.came) == self.enough:
            came, self.came = self.came, []
            self.round += 1
            server = self.run.n + self.number
            update = self.run.machine.compute(server, self._update, self.round, [sent])
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
