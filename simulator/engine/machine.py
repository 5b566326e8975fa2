"""The machine: SimPy processes for every core and every exchange, and the links between them."""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Sequence
from typing import Any

import simpy

from simulator.engine import accelerated
from simulator.engine.blocks import ACCELERATION, Block, Timed
from simulator.engine.errors import DeadlockError, SimulationError, who_waits
from simulator.engine.interconnect import Interconnect, Memories
from simulator.engine.jobs import Job
from simulator.engine.operations import Operation, Program
from simulator.engine.picoseconds import whole_ps
from simulator.engine.records import Columns, Log
from simulator.engine.resources import (
    Cores,
    Done,
    ExchangeOverlap,
    Meeting,
    Span,
    all_resources,
    fire_now,
    latest,
    names_of,
    pending,
    when_all,
)
from simulator.engine.timeline import Timeline

Process = Generator[simpy.Event, Any, Any]
"""What a process does: it yields the events it waits for."""


SMALL = 1000
"""A remainder below one part in so many of a computation is not slowed again."""


class Machine:
    """Everything of an array that takes time, ready to be given operations.

    ``compute`` gives a worker's cores something to do, ``meet`` takes part in
    an exchange of several workers, ``deliver`` sends something to whoever
    waits for its ``arrival``. Each returns the event of its end, and begins once
    all events ``after`` which it comes have fired; the last of them, or what
    the worker's cores did before, is written down as its cause. ``process``
    lets a generator do these things while time passes, waiting for the events
    that it yields; ``run`` goes on until nothing is left to do.
    """

    def __init__(self, program: Program) -> None:
        self.env = simpy.Environment(initial_time=0)
        self.program = program
        self.all_resources = all_resources(program)
        self._log = Log()
        self._processes: list[tuple[simpy.Process, int]] = []
        self._doing: list[Operation | None] = [None] * len(program.workers)
        self._meetings: dict[Hashable, Meeting] = {}
        self._deliveries: dict[Hashable, Meeting] = {}
        self._cores = [
            [Cores(self.env, worker_resources, self._log, lane) for lane in worker_resources.lanes]
            for worker_resources in self.all_resources.workers
        ]
        self._beside = {
            number: ExchangeOverlap(self.env)
            for number, worker in enumerate(program.workers)
            if worker.contention
        }
        self._links = program.followed()
        self._wires = len(self._links.bandwidth)
        memories = [[each] for each in program.hbms]
        self.interconnect = Interconnect(self.env, self._links.bandwidth, *memories)
        self._memories = Memories(self.env, program, self.interconnect, self._wires)
        self._blocks: dict[tuple[Hashable, ...], Block] = {}
        self._accelerated = accelerated(ACCELERATION)

    def compute(
        self, worker: int, operation: Operation, micro_batch: int = 0, after: Sequence[Done] = ()
    ) -> Done:
        """Run an operation on a worker's cores, or a unit, behind what that was given before.

        It is slower by ``contention`` beside exchanges that the worker was given before it began.
        """
        cores = self._cores[worker][operation.unit]
        previous, span = cores.last, cores.take()
        span.operation, span.micro_batch = self._log.number(operation), micro_batch
        self._doing[worker] = operation
        before = after if previous is None else (*after, previous)
        if waiting := pending(before):
            when_all(waiting, lambda: self._open(worker, operation, span, latest(before)))
        else:
            self._open(worker, operation, span, latest(before))
        return span

    def block(self, worker: int, operations: Sequence[Operation]) -> Block | None:
        """Some operations of a worker as a block; None where there can be none (``blocks``)."""
        mine = self.program.workers[worker]
        if not self._accelerated or mine.pace is not None or mine.units:
            return None
        if not self._memories.is_own(mine.hbm):
            return None
        bandwidth = None if mine.hbm is None else self.program.hbms[mine.hbm]
        key = bandwidth, *operations
        if key not in self._blocks:
            self._blocks[key] = Block([self._timed(worker, one) for one in operations])
        return self._blocks[key]

    def _timed(self, worker: int, operation: Operation) -> Timed:
        """A computation as blocks have it."""
        mine, number = self.program.workers[worker], self._log.number
        if mine.hbm is None or not operation.hbm_bytes:
            return Timed(operation, number(operation), operation.duration_ps)
        through_ps = whole_ps(operation.hbm_bytes / self.program.hbms[mine.hbm])
        moved = number(self._memories.traffic(operation))
        return Timed(operation, number(operation), operation.duration_ps, through_ps, moved)

    def slowed(self, worker: int) -> bool:
        """Whether what a worker exchanges slows what it computes now."""
        beside = self._beside.get(worker)
        return beside is not None and beside.given > 0

    def compute_block(
        self, worker: int, block: Block, micro_batch: int = 0, after: Sequence[Done] = ()
    ) -> Done:
        """Run a ``block``'s operations; the event is the end of the last one."""
        cores, mine = self._cores[worker][0], self.program.workers[worker]
        previous, span = cores.last, cores.take()
        span.block, span.micro_batch = block, micro_batch
        before = after if previous is None else (*after, previous)

        def begin() -> None:
            span.start_ps, span.cause = int(self.env.now), latest(before)
            if mine.hbm is not None:
                self._memories.crossed(mine.hbm, block.hbm_bytes)
            self._fire(span, block.duration_ps)

        if waiting := pending(before):
            when_all(waiting, begin)
        else:
            begin()
        return span

    def meet(
        self,
        worker: int,
        operation: Operation,
        parties: int,
        micro_batch: int = 0,
        after: Sequence[Done] = (),
        key: Hashable = None,
        communicator: int | None = None,
    ) -> Meeting:
        """Take part in an exchange of so many ``parties``; the event is the same for all of them.

        Those who name the same ``key`` (if none, the operation) at the same ``communicator``
        and micro-batch meet. Without one it is the worker's own at the operation's level.
        """
        if communicator is None:
            communicator = self.program.workers[worker].communicators[operation.level]
        name = (operation if key is None else key, communicator, micro_batch)
        meeting = self._meetings.get(name)
        if meeting is None:
            meeting = self._meetings[name] = Meeting(self.env, self._log, name, parties)
            meeting.open(operation, micro_batch, self.all_resources.links[communicator])
        self._come(meeting, worker, after)
        return meeting

    def deliver(
        self,
        worker: int,
        operation: Operation,
        key: Hashable,
        micro_batch: int = 0,
        after: Sequence[Done] = (),
        communicator: int = 0,
        parties: int = 1,
        *,
        rendezvous: bool = False,
    ) -> Done:
        """Send something once all ``parties`` have come, to who waits for ``arrival(key)``.

        In a ``rendezvous`` it begins when somebody has come to ``receive(key)`` as well.
        """
        sent = self.arrival(key)
        if not sent.opened:
            sent.awaited += parties + rendezvous
            sent.open(operation, micro_batch, self.all_resources.links[communicator])
        elif not sent.awaited:
            raise SimulationError(f"{key!r} is delivered twice")
        self._come(sent, worker, after)
        return sent

    def expect(self, worker: int, operation: Operation) -> None:
        """Say what a worker is about to do, should it wait in vain."""
        self._doing[worker] = operation

    def arrival(self, key: Hashable) -> Meeting:
        """The end of the delivery of ``key``, which may be sent later."""
        sent = self._deliveries.get(key)
        if sent is None:
            sent = self._deliveries[key] = Meeting(self.env, self._log, None, 0)
        return sent

    def receive(self, worker: int, key: Hashable, after: Sequence[Done] = ()) -> Meeting:
        """The end of a rendezvous, which a worker comes to; who comes first stands for all."""
        sent = self.arrival(key)
        if sent.receiver_ready:
            return sent
        sent.receiver_ready, before = True, self._before(worker, after)

        def ready() -> None:
            sent.receiver_cause = latest(before)
            self._one_less(sent)

        if waiting := pending(after):
            when_all(waiting, ready)
        else:
            ready()
        return sent

    def process(self, generator: Process, worker: int = 0) -> simpy.Process:
        """Let a generator act for a worker while time passes; it waits for what it yields."""
        self._processes.append((self.env.process(generator), worker))
        return self._processes[-1][0]

    def run(self, until: simpy.Event | None = None) -> Timeline:
        """Run until nothing is left to do, or ``until`` has fired.

        Raises DeadlockError when processes wait for what never comes; with
        ``until`` they may.
        """
        events, step = 0, self.env.step
        try:
            while until is None or until.callbacks is not None:
                step()
                events += 1
        except simpy.core.EmptySchedule:
            pass
        except OverflowError:
            raise SimulationError(
                "the step takes more than 106 days (2^63 ps); are bandwidths and peaks right?"
            ) from None
        if until is None or until.callbacks is not None:
            self._check_all_is_done()
        return Timeline(
            self.program,
            self.all_resources,
            self._log.operations,
            self._log.columns(),
            self._log.participants(),
            events,
            self._links,
            tuple(self.interconnect.link_bytes[: self._wires].tolist()),
            self._memories.bytes,
        )

    def so_far(self) -> Columns:
        """The records of what is over."""
        return self._log.columns()

    def _open(self, worker: int, operation: Operation, span: Span, cause: Done | None) -> None:
        """Begin on the cores; where the HBM is followed, the end is when both are through."""
        mine = self.program.workers[worker]
        duration = operation.duration_ps
        if mine.pace is not None:
            duration = round(duration * mine.pace(span.micro_batch))
        span.start_ps, span.cause = int(self.env.now), cause
        if mine.hbm is None or not operation.hbm_bytes:
            self._over(worker, span, duration)
            return
        moved, through_ps = self._memories.cross(mine.hbm, operation.hbm_bytes)
        moved.callbacks.append(lambda _: self._moved(worker, operation, span))
        if through_ps is not None:
            self._over(worker, span, max(duration, through_ps))
            return
        both = 2

        def through(_: simpy.Event) -> None:
            nonlocal both
            both -= 1
            if not both:
                self._fire(span, 0)

        moved.callbacks.append(through)
        self.env.timeout(duration).callbacks.append(through)

    def _over(self, worker: int, span: Span, delay_ps: int) -> None:
        """End a computation, later by the worker's contention with what it exchanges meanwhile.

        In 8 ms beside an exchange 6.4 ms of the work are done with a contention of 0.25, so 10 ms
        end after 11.6.
        """
        beside = self._beside.get(worker)
        if beside is None or not beside.given:
            self._fire(span, delay_ps)
            return
        contention, before, paid = self.program.workers[worker].contention, beside.ps, 0
        share = contention / (1 + contention)

        def over(_: simpy.Event) -> None:
            nonlocal paid
            more = round(share * (beside.ps - before)) - paid
            paid += more
            if more * SMALL <= delay_ps:
                self._fire(span, more)
            else:
                self.env.timeout(more).callbacks.append(over)

        self.env.timeout(delay_ps).callbacks.append(over)

    def _fire(self, done: Done, delay_ps: int) -> None:
        done._ok, done._value = True, None
        done.end_ps = int(self.env.now) + delay_ps
        self.env.schedule(done, delay=delay_ps)

    def _moved(self, worker: int, operation: Operation, span: Span) -> None:
        """An operation's bytes are through its worker's HBM."""
        (memory,) = self.all_resources.workers[worker].memories
        traffic = self._memories.traffic(operation)
        self._log.note(
            memory, traffic, span.micro_batch, span.start_ps, int(self.env.now), span.cause
        )

    def _come(self, meeting: Meeting, worker: int, after: Sequence[Done]) -> None:
        """Take part once ``after`` is over."""
        self._doing[worker] = meeting.operation
        if beside := self._beside.get(worker):
            beside.given += 1
            meeting.callbacks.append(beside.ends)
        before = self._before(worker, after)
        if waiting := pending(after):
            when_all(waiting, lambda: self._arrive(meeting, worker, before))
        else:
            self._arrive(meeting, worker, before)

    def _before(self, worker: int, after: Sequence[Done]) -> Sequence[Done]:
        """What a worker has waited for: ``after``, and what its core had done before."""
        previous = None if len(self._cores[worker]) > 1 else self._cores[worker][0].last
        return after if previous is None or previous.callbacks is not None else (*after, previous)

    def _arrive(self, meeting: Meeting, worker: int, before: Sequence[Done]) -> None:
        meeting.arrived.append((worker, latest(before)))
        self._one_less(meeting)

    def _one_less(self, meeting: Meeting) -> None:
        """One more has come: with the last one it begins."""
        meeting.awaited -= 1
        if meeting.opened and not meeting.awaited:
            self._begin(meeting)

    def _begin(self, meeting: Meeting) -> None:
        """Everybody has come: carry it."""
        self._meetings.pop(meeting.name, None)
        meeting.start_ps = int(self.env.now)
        for worker, _ in meeting.arrived if self._beside else ():
            if beside := self._beside.get(worker):
                beside.begins()
        if meeting.operation.jobs:
            self._carry(meeting, iter(meeting.operation.jobs))
        else:
            self._fire(meeting, meeting.operation.duration_ps)

    def _carry(self, meeting: Meeting, jobs: Iterator[Job]) -> None:
        """What is left of an exchange's jobs, one after the other."""
        for job in jobs:
            moved = self.interconnect.submit(self._links.carry(job))
            moved.callbacks.append(lambda _: self._carry(meeting, jobs))
            return
        meeting._ok, meeting._value = True, None
        meeting.end_ps = int(self.env.now)
        fire_now(meeting)

    def _check_all_is_done(self) -> None:
        """Raise DeadlockError where a process, or whoever came to a meeting, still waits."""
        waits: dict[int, Operation | None] = {}
        for meeting in self._meetings.values():
            for worker, _ in meeting.arrived:
                waits.setdefault(worker, meeting.operation)
        for process, worker in self._processes:
            if process.is_alive:
                waits.setdefault(worker, self._doing[worker])
        if waits:
            raise DeadlockError(who_waits(int(self.env.now), names_of(self.all_resources, waits)))
