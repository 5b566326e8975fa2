"""Hop: decentralised training whose iteration gap is bounded by queues.

Everybody sends its model to its neighbours at the start of an iteration,
computes meanwhile, then takes the mean of the neighbours' models of that
iteration and adds its own gradient. Whoever is ahead waits: for updates, for
acknowledgements, or for tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from simulator.drivers.errors import TrainingError
from simulator.drivers.method import Method, within
from simulator.drivers.methods.hop_queues import Acknowledgements, Tokens, Updates
from simulator.drivers.run import Process, Run
from simulator.drivers.waiting import when

PROTOCOLS = ("standard", "notify-ack")


@dataclass(frozen=True)
class Hop(Method):
    """Hop: the mean of the neighbours' models of the same iteration, and what queues allow.

    ``protocol`` is standard or notify-ack. ``tokens``: at most so many iterations ahead
    of a neighbour (0: no token queues). ``backup``: so many neighbours' updates are
    not waited for. ``staleness``: updates of so many iterations before will do.
    ``skip``: whoever is far behind, as its tokens say, jumps ahead by so many
    iterations at most.
    """

    protocol: str = field(default="standard", metadata={"choices": PROTOCOLS})
    tokens: int = 0
    backup: int = 0
    staleness: int = 0
    skip: int = 0
    source: ClassVar[str] = "Luo et al., Hop, ASPLOS 2019"
    recalled: ClassVar[str] = (
        "the protocol; that tokens and acknowledgements take a latency is ours"
    )
    graph: ClassVar[str] = "ring-based"

    def check(self, workers: int) -> None:  # noqa: ARG002, D102
        for name in ("tokens", "backup", "staleness", "skip"):
            within(name, getattr(self, name), 0)
        loose = self.backup or self.staleness
        if loose and not self.tokens:
            raise TrainingError(
                "option tokens=0: with backup or staleness the gap between neighbours has no other "
                "bound; say tokens=4, or so"
            )
        if self.skip and not loose:
            raise TrainingError("option skip: needs backup or staleness, or neighbours would wait")
        if loose and self.protocol != "standard":
            raise TrainingError("option protocol=notify-ack: has neither backup nor staleness")

    def start(self, run: Run) -> None:  # noqa: D102
        if run.n > 1 and self.backup >= min(map(len, run.graph.sources)):
            raise TrainingError(
                f"option backup={self.backup}: some worker of graph {run.graph.name!r} has no more "
                "than so many neighbours; fewer, or another graph"
            )
        training = _Training(run, self)
        for w in range(run.n):
            run.work(w, training.worker(w))


class _Training:
    def __init__(self, run: Run, method: Hop) -> None:
        cluster, near = run.cluster, run.graph.neighbours
        self._run, self._method = run, method
        self._updates = Updates(run, method.backup, method.staleness)
        self._acks = Acknowledgements(run) if method.protocol == "notify-ack" else None
        self._tokens = Tokens(run, method.tokens) if method.tokens else None
        self._sends = [
            cluster.send(w, near[w], cluster.model_bytes, "model") if near[w] else None
            for w in range(run.n)
        ]

    def worker(self, w: int) -> Process:
        """One worker's iterations."""
        run, iteration = self._run, 0
        while True:
            yield from self._send(w, iteration)
            step = run.step(w, iteration)
            yield step
            used = yield from self._updates.receive(w, iteration)
            self._mix(w, iteration, used)
            run.note("update", w)
            if self._acks is not None:
                self._acks.send(w)
            jump = 1
            if self._tokens is not None:
                yield from self._tokens.take(w, 1)
                jump += min(self._method.skip, self._tokens.behind(w))
                if jump > 1:
                    yield from self._tokens.take(w, jump - 1)
                    used = yield from self._updates.receive(w, iteration + jump - 1)
                    self._mix(w, iteration + jump - 1, used)
            iteration += jump
            run.finish(w, jump)
            if self._tokens is not None:
                self._tokens.put(w, jump)

    def _send(self, w: int, iteration: int) -> Process:
        """One's model to all neighbours; with notify-ack once they have taken the last one."""
        run = self._run
        run.note("send", w, iteration)
        self._updates.begin(w, iteration)
        if (send := self._sends[w]) is None:
            return
        if self._acks is not None:
            yield from self._acks.wait(w)
        sent = run.alone(w, send, iteration)
        when(sent, lambda: self._updates.arrive(w, iteration))

    def _mix(self, w: int, iteration: int, used: dict[int, int]) -> None:
        """The mean of the updates that came, by the graph's weights; the rest is one's own."""
        run, weights = self._run, self._run.graph.weights[w]
        for k in used.values():
            run.staleness[iteration - k] += 1
        mixed = [(v, k, weights[v]) for v, k in sorted(used.items())]
        own = 1 - sum(weight for *_, weight in mixed)
        run.note("mix", w, iteration, (*mixed, (w, None, own)))
