"""A run of a method: its workers as processes, and what is written down while they go on."""

from __future__ import annotations

from array import array as column
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from itertools import count
from typing import Any

import simpy

from simulator.asynchronous.cluster import COMMON, Cluster
from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.graphs import Graph
from simulator.asynchronous.stragglers import Slowdowns
from simulator.asynchronous.waiting import Blocked, Hang, hang_of, when
from simulator.engine.errors import DeadlockError
from simulator.engine.machine import Machine
from simulator.engine.operations import Operation
from simulator.engine.picoseconds import whole_ps
from simulator.engine.resources import Done, Meeting
from simulator.engine.timeline import Timeline

Process = Generator[simpy.Event, Any, None]
Event = tuple[Any, ...]
"""What happened to models, in order: the time in picoseconds, a word, and what it is about."""
PATIENCE = 1000
"""After so many iterations of workers that have done theirs, the run looks for lost ones."""


class Run:
    """One training run: the machine, the workers' progress, waits, staleness and gaps.

    It ends when all workers together have done ``iterations`` each on average,
    or, with ``everybody``, when each that lives has. Methods start processes with ``work``;
    these compute (``step``), exchange (``alone``, ``together``), and say what happens to
    models (``note``: kept only with ``keeps_history``). ``progress`` is called for
    every hundredth of the iterations.
    """

    def __init__(
        self,
        cluster: Cluster,
        iterations: int,
        seed: int = 0,
        slowdowns: Slowdowns | None = None,
        graph: Graph | None = None,
        *,
        everybody: bool = False,
        keeps_history: bool = False,
        progress: Callable[[], object] | None = None,
    ) -> None:
        self.cluster, self.iterations, self.seed = cluster, iterations, seed
        self.slowdowns = slowdowns or Slowdowns()
        self.given_graph = graph
        self.n = cluster.count
        self.machine = Machine(cluster.program(self.slowdowns.pace))
        self.env = self.machine.env
        self.done = [0] * self.n
        """Iterations that each worker has done."""
        self.at = [0] * self.n
        """The iteration that each is in: the same, unless some are skipped."""
        self.ends: list[column[int]] = [column("q") for _ in range(self.n)]
        self.waits: list[Counter[str]] = [Counter() for _ in range(self.n)]
        self.staleness, self.gaps = Counter[int](), Counter[int]()
        self._entered: list[int] = []
        self._entered_ps = 0
        self._started = False
        self.history: list[Event] = []
        self.dead: dict[int, int] = {}
        """When each dead worker died (ps)."""
        self._died_in: dict[int, str] = {}
        """What those waited in that died waiting."""
        self._keeps_history = keeps_history
        self._left = self.n if everybody else self.n * iterations
        self._everybody = everybody
        self.everybody_ps: int | None = None
        self._to_go = self.n
        self._further = self._looked_ps = 0
        self._progress = progress
        self._hundredth = max(self.n * iterations // 100, 1)
        self._total = 0
        self._over = self.env.event()
        self._blocked: dict[int, Blocked] = {}
        self._bells: list[simpy.Event | None] = [None] * self.n
        self._in = Counter({0: self.n})
        self._sent = 0
        self.slowest = 0
        """The iteration that the last worker is in."""

    @property
    def graph(self) -> Graph:
        """The communication graph; raises TrainingError without one."""
        if self.given_graph is None:
            raise TrainingError("this method needs a communication graph")
        return self.given_graph

    @property
    def now(self) -> int:
        """Picoseconds since the start."""
        return int(self.env.now)

    # What workers do

    def work(self, worker: int, generator: Process) -> None:
        """Start a worker's process, when it joins; it goes until the run ends or it dies."""
        self._started = True
        process = self.machine.process(self._life(worker, generator), worker)
        if worker in self.slowdowns.dies_s:
            self.env.process(self._die(worker, process))

    def each(self, iterate: Callable[[int, int], Process]) -> None:
        """Every worker does its iterations, of which ``iterate`` is one, until the run ends."""

        def all_of(worker: int) -> Process:
            for iteration in count():
                before = self.at[worker]
                yield from iterate(worker, iteration)
                if self.at[worker] == before:
                    raise TrainingError(
                        f"worker {worker} does not finish iteration {iteration} (run.finish)"
                    )

        for worker in range(self.n):
            self.work(worker, all_of(worker))

    def _life(self, worker: int, generator: Process) -> Process:
        try:
            if worker in self.slowdowns.joins_s:
                start = self.env.timeout(whole_ps(self.slowdowns.joins_s[worker]))
                yield from self.wait(worker, start, "its own start")
            yield from generator
        except simpy.Interrupt:
            self.dead[worker] = self.now
            if (blocked := self._blocked.get(worker)) is not None:
                self._died_in[worker] = blocked.under()
            if self._everybody and self.done[worker] < self.iterations:
                self._one_less()

    def _die(self, worker: int, process: simpy.Process) -> Process:
        yield self.env.timeout(whole_ps(self.slowdowns.dies_s[worker]))
        if process.is_alive:
            process.interrupt()

    def step(self, worker: int, iteration: int, after: Sequence[Done] = ()) -> Done:
        """A worker's local step, slowed as its draw of the iteration says."""
        self.note("gradient", worker, iteration)
        return self.machine.compute(worker, self.cluster.steps[worker], iteration, after)

    def alone(
        self, worker: int, operation: Operation, micro_batch: int, after: Sequence[Done] = ()
    ) -> Meeting:
        """Something that a worker sends, without anybody's waiting to receive it."""
        self._sent += 1
        return self.machine.meet(worker, operation, 1, micro_batch, after, self._sent, worker + 1)

    def together(
        self,
        worker: int,
        operation: Operation,
        parties: int,
        micro_batch: int,
        after: Sequence[Done] = (),
        key: Any = None,
        then: Callable[[], object] | None = None,
    ) -> Meeting:
        """Something that several workers exchange, once all of them have come.

        What the first of them wants done ``then`` is done before any of them goes on.
        """
        done = self.machine.meet(worker, operation, parties, micro_batch, after, key, COMMON)
        if then is not None and len(done.callbacks) == 1:  # its record alone: nobody was here yet
            when(done, then)
        return done

    # Waiting

    def wait(
        self,
        worker: int,
        event: simpy.Event,
        cause: str,
        whom: Iterable[int] | Callable[[], Iterable[int]] = (),
    ) -> Process:
        """Wait for an event; how long is written down under its cause."""
        if event.callbacks is None:
            return
        began = self.now
        with Blocked(self._blocked, worker, began, cause, whom):
            yield event
        self.waits[worker][cause] += self.now - began

    def exchanged(self, worker: int, meeting: Meeting, members: Iterable[int] = ()) -> Process:
        """Wait until an exchange is over: first for the others to come, then for its bytes."""
        began = self.now
        with Blocked(self._blocked, worker, began, "the others", members, meeting):
            yield meeting
        self.waits[worker]["the others"] += max(meeting.start_ps - began, 0)
        self.waits[worker]["exchange"] += self.now - max(meeting.start_ps, began)

    def until(
        self, worker: int, holds: Callable[[], bool], cause: str, whom: Callable[[], Iterable[int]]
    ) -> Process:
        """Wait until something holds; it is asked again whenever the worker's bell ``ring``s."""
        if holds():
            return
        began = self.now
        with Blocked(self._blocked, worker, began, cause, whom):
            while not holds():
                bell = self._bells[worker] = self.env.event()
                yield bell
        self.waits[worker][cause] += self.now - began

    def ring(self, worker: int) -> None:
        """Something has changed that a worker may be waiting for."""
        bell = self._bells[worker]
        if bell is not None:
            self._bells[worker] = None
            bell.succeed()

    def after(self, delay_s: float, then: Callable[[], object]) -> None:
        """Do something later; at once where that is no time."""
        if delay_s:
            when(self.env.timeout(whole_ps(delay_s)), then)
        else:
            then()

    # What is written down

    def note(self, *what: Any) -> None:
        """Something happens to a model now."""
        if self._keeps_history:
            self.history.append((self.now, *what))

    def finish(self, worker: int, iterations: int = 1) -> None:
        """A worker has done an iteration; with more, it has skipped those between."""
        before = self.at[worker]
        self.done[worker] += 1
        self._total += 1
        if self._progress is not None and self._total % self._hundredth == 0:
            self._progress()
        self.ends[worker].append(self.now)
        if self.done[worker] == self.iterations:
            self._to_go -= 1
            if not self._to_go:
                self.everybody_ps = self.now
        self.enter(worker, before + iterations)
        if not self._everybody or self.done[worker] == self.iterations:
            self._one_less()
        self._further = self._further + 1 if self.done[worker] > self.iterations else 0
        if self._everybody and self.dead and self._further == PATIENCE:
            self._stop_without_the_lost()

    def _stop_without_the_lost(self) -> None:
        """The run is over when all workers with iterations to do are dead, or wait for the dead.

        These have waited since the last look: some methods go on without a dead worker in the end.
        """
        hang = hang_of(self.now, self._blocked, [*self.dead], all_stopped=False)
        waits = hang.waits if hang else {}
        lost = {*self.dead, *(w for w in waits if self._blocked[w].since_ps <= self._looked_ps)}
        self._further, self._looked_ps = 0, self.now
        if all(w in lost for w in range(self.n) if self.done[w] < self.iterations):
            self._left = 1
            self._one_less()

    def _one_less(self) -> None:
        """The run is over when nothing is left."""
        self._left -= 1
        if not self._left and not self._over.triggered:
            self._over.succeed()

    def enter(self, worker: int, iteration: int) -> None:
        """A worker is in another iteration now; how far it is ahead of the last one is counted.

        That is when all have moved that move in the same picosecond.
        """
        if self.now != self._entered_ps:
            self._count_gaps()
        inside = self._in
        inside[self.at[worker]] -= 1
        inside[iteration] += 1
        self.at[worker] = iteration
        while not inside[self.slowest]:
            del inside[self.slowest]
            self.slowest += 1
        self._entered.append(iteration)

    def _count_gaps(self) -> None:
        self.gaps.update(max(iteration - self.slowest, 0) for iteration in self._entered)
        self._entered, self._entered_ps = [], self.now

    # The run itself

    def run(self) -> tuple[Timeline, Hang | None]:
        """Go on until the end, or until nobody can; who waits then, for ever or for the dead.

        Raises TrainingError where no worker was started, or an iteration is never finished.
        """
        if not self._started:
            raise TrainingError("the method starts no worker (run.each, or run.work)")
        try:
            timeline = self.machine.run(self._over)
        except DeadlockError:
            timeline = self.machine.run(self.env.event().succeed())
            stopped = True
        else:
            stopped = False
        self._count_gaps()
        at_ps = timeline.makespan_ps
        all_died = len(self.dead) == self.n
        for worker, blocked in self._blocked.items():  # who waits at the end has waited so long
            cause = self._died_in.get(worker) or blocked.under()
            until_ps = min(self.dead.get(worker, at_ps), at_ps)
            self.waits[worker][cause] += max(until_ps - blocked.since_ps, 0)
        if not all_died:
            self.dead = {worker: at for worker, at in self.dead.items() if at <= at_ps}
        for worker, died_ps in self.dead.items():
            self.waits[worker]["its own end"] += max(at_ps - died_ps, 0)
        return timeline, hang_of(
            at_ps, self._blocked, [*self.dead], all_stopped=stopped or all_died
        )
