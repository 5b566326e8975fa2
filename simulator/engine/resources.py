"""What workers have and where they meet: cores, HBMs and links by name, and who is busy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import simpy

from simulator.engine.blocks import Block
from simulator.engine.operations import Board, Operation, Program, Worker
from simulator.engine.records import NO_ROW, Log


class Resource(NamedTuple):
    """A core, unit of a core, HBM or link that stands for ``multiplicity`` alike ones.

    ``cores`` is how many of the array's cores wait while it is busy (all that
    a core stands for; those on both sides of the splits a link stands for).
    """

    kind: str
    name: str
    multiplicity: int
    cores: int = 0
    device: Board | None = None


class WorkerResources(NamedTuple):
    """Where a worker stands: its name, and the numbers of its resources.

    ``links`` are those of the splits above it, the top one first; ``units`` those of
    its core, if it has several.
    """

    name: str
    cores: tuple[int, ...]
    memories: tuple[int, ...]
    links: tuple[int, ...]
    units: tuple[int, ...] = ()

    @property
    def lanes(self) -> tuple[tuple[int, ...], ...]:
        """What does one operation at a time: each unit, or the cores, which all do the same."""
        return tuple((unit,) for unit in self.units) or (self.cores,)

    @property
    def own(self) -> tuple[int, ...]:
        """Every resource but the links."""
        return self.cores + self.units + self.memories


class AllResources(NamedTuple):
    """Every resource of a program's array, those of each worker, each communicator's link."""

    resources: tuple[Resource, ...]
    workers: tuple[WorkerResources, ...]
    links: tuple[int, ...]


def all_resources(program: Program) -> AllResources:
    """Name and number what a program's workers have.

    A link comes before what is under it, and a chip's cores before its HBM;
    links that are nobody's own come last.
    """
    resources: list[Resource] = []
    found: list[WorkerResources] = []
    links: dict[int, int] = {}
    names = Counter[int]()
    under = Counter[int]()
    for worker in program.workers:
        under.update(dict.fromkeys(worker.communicators, worker.cores))

    def link(communicator: int) -> int:
        if communicator not in links:
            level, multiplicity, name = program.communicators[communicator]
            links[communicator] = len(resources)
            if not name:
                name = f"link{level}.{names[level]}"
                names[level] += 1
            resources.append(Resource("link", name, multiplicity, under[communicator]))
        return links[communicator]

    for number, worker in enumerate(program.workers):
        above = tuple(map(link, worker.communicators))
        first = len(resources)
        resources += _own(worker, f"{worker.unit}{number}")
        mine = range(first, len(resources))
        found.append(
            WorkerResources(
                f"{worker.unit}{number}",
                tuple(i for i in mine if resources[i].kind == "core"),
                tuple(i for i in mine if resources[i].kind == "hbm"),
                above,
                tuple(i for i in mine if resources[i].kind == "unit"),
            )
        )
    every = tuple(map(link, range(len(program.communicators))))
    return AllResources(tuple(resources), tuple(found), every)


def _own(worker: Worker, name: str) -> Iterator[Resource]:
    """A worker's cores and HBMs; one that stands for others has their number."""
    device, count = worker.device, worker.multiplicity
    if worker.unit == "core":  # a single core, and its slice of the HBM
        yield Resource("core", f"{name}.core", count, count, device)
        for unit in worker.units:
            yield Resource("unit", f"{name}.{unit}", count, count, device)
        yield Resource("hbm", f"{name}.hbm", count, device=device)
        return
    chips_each = count * device.chips // worker.chips
    cores_each = chips_each * device.cores_per_chip // worker.cores_per_chip
    for chip in range(worker.chips):
        place = f"{name}.chip{chip}"
        for core in range(worker.cores_per_chip):
            yield Resource("core", f"{place}.core{core}", cores_each, cores_each, device)
        yield Resource("hbm", f"{place}.hbm", chips_each, device=device)


def names_of(all_resources: AllResources, doing: Mapping[int, object]) -> dict[str, str]:
    """Workers by name and device, in their order, with what each does, as text."""
    found = {}
    for number, what in sorted(doing.items(), key=lambda item: item[0]):
        worker_resources = all_resources.workers[number]
        device = all_resources.resources[worker_resources.cores[0]].device
        found[f"{worker_resources.name} ({device.name if device else ''})"] = str(what)
    return found


class Done(simpy.Event):
    """The end of an operation: once it fires, ``number`` is its own in the log.

    It ends at ``end_ps``.
    """

    end_ps: int
    number: int


def latest(events: Sequence[Done]) -> Done | None:
    """What ended last of these, the first named among equals: what one had to wait for."""
    found: Done | None = None
    for event in events:
        if found is None or event.end_ps > found.end_ps:
            found = event
    return found


def pending(events: Sequence[Done]) -> list[Done]:
    """Those that have not fired yet."""
    return [event for event in events if event.callbacks is not None]


def when_all(events: Sequence[Done], then: Callable[[], object]) -> None:
    """Do something when all events have fired, none of which has yet."""
    missing = len(events)

    def fired(_: simpy.Event) -> None:
        nonlocal missing
        missing -= 1
        if not missing:
            then()

    for event in events:
        event.callbacks.append(fired)


def fire_now(event: simpy.Event) -> None:
    """Tell who waits for an event that it is over, without a place in the queue."""
    waiting, event.callbacks = event.callbacks, None  # type: ignore[assignment]  # as SimPy does
    for callback in waiting:
        callback(event)


def number_of(done: Done | None) -> int:
    """Its number in the log, or NO_ROW."""
    return NO_ROW if done is None else done.number


class Span(Done):
    """One operation's time on a worker's cores.

    A timeout that begins later than it is made: what will wait for its end,
    the cores' own processes first, can do so before it has begun.
    """

    operation: int
    micro_batch: int
    start_ps: int
    cause: Done | None
    """Forgotten once it is written down, or each would keep all that was before it."""
    next: Span
    block: Block | None = None
    first: int


class ExchangeOverlap:
    """A worker's exchanges: how many were ``given`` and are not over, and how long any went on."""

    def __init__(self, env: simpy.Environment) -> None:
        self.given = 0
        self._env = env
        self._going, self._since_ps, self._total_ps = 0, 0, 0

    @property
    def ps(self) -> int:
        """Picoseconds up to now in which an exchange went on."""
        return self._total_ps + (int(self._env.now) - self._since_ps if self._going else 0)

    def begins(self) -> None:
        """One more goes on."""
        if not self._going:
            self._since_ps = int(self._env.now)
        self._going += 1

    def ends(self, _: simpy.Event) -> None:
        """One that began is over."""
        self._total_ps, self._since_ps = self.ps, int(self._env.now)
        self._going -= 1
        self.given -= 1


class Cores:
    """Cores that run the same operations together.

    A SimPy process serves each of them and writes its records. An operation
    is one event, whose end wakes all of them.
    """

    __slots__ = ("_env", "_free", "_log", "_memory", "last", "resources")

    def __init__(
        self,
        env: simpy.Environment,
        worker_resources: WorkerResources,
        log: Log,
        resources: Sequence[int],
    ) -> None:
        self._env = env
        self._memory = next(iter(worker_resources.memories), NO_ROW)
        self._log = log
        self.resources = resources
        self.last: Span | None = None
        self._free = Span(env)
        for resource in resources:
            env.process(self._serve(resource, self._free))

    def take(self) -> Span:
        """The next operation's span, for which the cores' processes wait or will wait."""
        span = self.last = self._free
        self._free = span.next = Span(self._env)
        return span

    def _serve(self, resource: int, span: Span) -> Generator[simpy.Event, Any, None]:
        log, first = self._log, resource == self.resources[0]
        resources, done = log.resource.append, log.done.append
        while True:
            yield span
            if span.block is not None:
                if first:
                    cause = number_of(span.cause)
                    on = resource, self._memory
                    span.first = log.block(span.block, on, span.micro_batch, span.start_ps, cause)
                    span.number = span.first + span.block.count - 1
                    span.cause = None
                else:
                    log.rows(resource, span.first, span.block.count)
                span = span.next
                continue
            if first:
                span.number = log.over(
                    span.operation,
                    span.micro_batch,
                    span.start_ps,
                    span.end_ps,
                    number_of(span.cause),
                )
                span.cause = None
            resources(resource)
            done(span.number)
            span = span.next


class Meeting(Done):
    """An exchange: where its parties come together, and the event of its end.

    ``arrived`` has who came, in the order in which they did, until it is over: each party's
    worker and what it had waited for; ``awaited`` are those to come. A rendezvous is
    ``receiver_ready`` once its receiver has come, ``receiver_cause`` what that had waited for.
    Parties may arrive before it is ``opened``, so ``awaited`` can be negative until then.
    """

    operation: Operation
    micro_batch: int
    link: int
    start_ps: int

    def __init__(self, env: simpy.Environment, log: Log, name: Hashable, parties: int) -> None:
        super().__init__(env)
        self._log = log
        self.callbacks.append(self._over)
        self.name = name
        self.awaited = parties
        self.arrived: list[tuple[int, Done | None]] = []
        self.opened = self.receiver_ready = False
        self.receiver_cause: Done | None = None

    def open(self, operation: Operation, micro_batch: int, link: int) -> None:
        """Say what is exchanged, and on which link it is recorded."""
        self.operation, self.micro_batch, self.link = operation, micro_batch, link
        self.opened = True

    def _over(self, _: simpy.Event) -> None:
        """Its record, and who took part in it after what."""
        log, last = self._log, self.receiver_cause
        first_worker = 1 << 62  # who receives is behind all others
        for worker, waited in self.arrived:
            # who came last decided when it began; of those at once, the first worker
            if waited is not None and (
                last is None or (waited.end_ps, -worker) > (last.end_ps, -first_worker)
            ):
                last, first_worker = waited, worker
            log.worker.append(worker)
            log.waited_for.append(number_of(waited))
        link, operation, micro_batch = self.link, self.operation, self.micro_batch
        self.number = log.note(link, operation, micro_batch, self.start_ps, self.end_ps, last)
        log.met.extend([self.number] * len(self.arrived))
        self.arrived, self.receiver_cause = [], None  # it is forgotten, as what a core waited for
