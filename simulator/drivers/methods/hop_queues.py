"""Hop's queues: updates that came, acknowledgements, and tokens."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from functools import partial
from typing import Any

import simpy

from simulator.drivers.run import Process, Run


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


class Acknowledgements:
    """Notify-ack: the next model is sent when all neighbours have used the last one."""

    def __init__(self, run: Run) -> None:
        self._run, self._to, self._of = run, run.graph.neighbours, run.graph.sources
        self._missing: list[set[int]] = [set() for _ in range(run.n)]

    def wait(self, w: int) -> Process:
        """Until all have answered the last send; then the next one is unanswered."""
        missing = self._missing
        yield from self._run.until(
            w, lambda: not missing[w], "acknowledgements", lambda: missing[w]
        )
        missing[w] = set(self._to[w])

    def send(self, w: int) -> None:
        """A worker has used what its sources sent."""
        for v in self._of[w]:
            self._run.after(self._run.cluster.latency_s(w, v), partial(self._came, w, v))

    def _came(self, source: int, w: int) -> None:
        self._missing[w].discard(source)
        self._run.ring(w)


class Tokens:
    """Token queues: to go on, a worker takes a token that each neighbour put for it.

    Each puts one for all of its sources whenever it enters an iteration; at first
    there are ``most``: so nobody is more than that ahead of whoever it sends to.
    """

    def __init__(self, run: Run, most: int) -> None:
        self._run, self._of, self._most = run, run.graph.sources, most
        self._queues = [dict.fromkeys(one, most) for one in run.graph.neighbours]

    def put(self, w: int, count: int) -> None:
        """A worker has entered an iteration, or jumped over so many."""
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
            "tokens",
            lambda: [v for v, left in queue.items() if left < count],
        )
        for v in queue:
            queue[v] -= count

    def behind(self, w: int) -> int:
        """How many iterations all neighbours are ahead, as far as the tokens say."""
        return max(min(self._queues[w].values(), default=0) - self._most, 0)
