"""Hop's queues: updates that came, acknowledgements, and tokens."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import simpy

from simulator.asynchronous.algorithm import Algorithm, within
from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.run import Process, Run
from simulator.asynchronous.waiting import when


class Updates:
    """The update queues: which iterations' models have come from whom, and not been left behind.

    Of iteration k one needs those of all neighbours but ``backup``, each at
    most ``staleness`` iterations old and none of a later one. Nobody jumps past k
    whom somebody waits for there: tokens let one jump no further than those it sends to are.
    """

    def __init__(self, run: Run, backup: int, staleness: int) -> None:
        self._run, self._to, self._of = run, run.graph.neighbours, run.graph.sources
        self._backup, self._staleness = backup, staleness
        self._came: list[dict[int, list[int]]] = [{v: [] for v in one} for one in self._of]
        self._entered = [0] * run.n

    def begin(self, w: int, iteration: int) -> None:
        """A worker is in an iteration: nothing older than it may use is needed any more."""
        self._entered[w] = iteration
        oldest = iteration - self._staleness
        for queue in self._came[w].values():
            while queue and queue[0] < oldest:
                queue.pop(0)

    def arrive(self, source: int, iteration: int) -> None:
        """A model has come to all neighbours of its worker."""
        for w in self._to[source]:
            if iteration >= self._entered[w] - self._staleness:
                self._came[w][source].append(iteration)
            self._run.ring(w)

    def _usable(self, w: int, iteration: int) -> dict[int, int]:
        """The newest update of each neighbour that will do."""
        oldest, found = max(iteration - self._staleness, 0), {}
        for v, queue in self._came[w].items():
            newest = max((k for k in queue if k <= iteration), default=-1)
            if newest >= oldest:
                found[v] = newest
        return found

    def receive(self, w: int, iteration: int) -> Generator[simpy.Event, Any, dict[int, int]]:
        """Wait for enough updates of an iteration; which one is used of whom."""
        enough = len(self._of[w]) - self._backup

        def holds() -> bool:
            return len(self._usable(w, iteration)) >= enough

        yield from self._run.until(w, holds, "updates", lambda: self._missing(w, iteration))
        return self._usable(w, iteration)

    def _missing(self, w: int, iteration: int) -> Iterable[int]:
        found = self._usable(w, iteration)
        return [v for v in self._of[w] if v not in found]


class Tokens:
    """Token queues: to go on, a worker takes a token that each neighbour put for it.

    Each puts one for all of its sources whenever it enters an iteration; at first
    there are ``most``: so nobody is more than that ahead of whoever it sends to. The
    acknowledgements of notify-ack are such tokens, too: each puts one when it has used a model,
    and to send the next one a worker takes one.
    """

    def __init__(self, run: Run, most: int, cause: str = "tokens") -> None:
        self._run, self._of, self._most, self._cause = run, run.graph.sources, most, cause
        self._queues = [dict.fromkeys(one, most) for one in run.graph.neighbours]

    def put(self, w: int, count: int) -> None:
        """Give so many to each source: for iterations entered, or for a model that was used."""
        for v in self._of[w]:
            self._run.after(self._run.cluster.latency_s(w, v), partial(self._came, w, v, count))

    def _came(self, source: int, w: int, count: int) -> None:
        self._queues[w][source] += count
        self._run.ring(w)

    def take(self, w: int, count: int) -> Process:
        """Wait until every neighbour's queue has so many, and take them."""
        queue = self._queues[w]
        yield from self._run.until(
            w,
            lambda: all(left >= count for left in queue.values()),
            self._cause,
            lambda: [v for v, left in queue.items() if left < count],
        )
        for v in queue:
            queue[v] -= count

    def behind(self, w: int) -> int:
        """How many iterations all neighbours are ahead, as far as the tokens say."""
        return max(min(self._queues[w].values(), default=0) - self._most, 0)


PROTOCOLS = ("standard", "notify-ack")


@dataclass(frozen=True)
class Hop(Algorithm):
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
        acknowledged = method.protocol == "notify-ack"
        self._acks = Tokens(run, 1, "acknowledgements") if acknowledged else None
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
                self._acks.put(w, 1)
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
            yield from self._acks.take(w, 1)
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
