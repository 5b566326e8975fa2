"""Pipelines once more, slowly: lists of what every replica does, timed until nothing changes.

Nothing of ``simulator`` is used. A stage has layers with times of its own; a
replica does one thing after the other; what it sends another stage goes behind what it
sent it before. Times are whole picoseconds, found by going over all lists
until every entry has one (the longest path through a graph without circles).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil

Step = tuple[str, int, int]
"""What is done ("F", "B" for both gradients, "E" errors, "W" weights), micro-batch, chunk."""


@dataclass
class SlowLayer:
    """Picoseconds of a layer: forward, errors, gradients of weights, their sums in the stage.

    A join has nothing to do.
    """

    forward: int = 0
    errors: int = 0
    weights: int = 0
    sums: int = 0
    join: bool = False


@dataclass
class SlowStage:
    """Layers; sums of gradients with replicas, behind those in the stage; then the update."""

    layers: list[SlowLayer]
    replica_sums: list[int] = field(default_factory=list)
    update: int = 0
    recompute: bool = False


@dataclass
class SlowSend:
    """A tensor: made by a layer of a stage, read by layers of another; picoseconds on its way.

    What is received in parts its readers ``gather``, features and errors, before they go on.
    """

    source: int
    producer: int
    target: int
    readers: list[int]
    forth: dict[tuple[int, int], int]
    back: dict[tuple[int, int], int]
    """By replica here and there."""
    gather: tuple[int, int] = (0, 0)


@dataclass
class SlowPipeline:
    """Stages, tensors between them, replicas of each place; ``blocking`` senders wait."""

    stages: list[SlowStage]
    sends: list[SlowSend]
    replicas: list[int]
    schedule: str
    micro_batches: int
    batches: int = 1
    blocking: bool = False

    @property
    def chunks(self) -> int:
        return len(self.stages) // len(self.replicas)


FLUSHES = {
    "gpipe": True,
    "1f1b": True,
    "interleaved": True,
    "zero-bubble": True,
    "pipedream": False,
    "2bw": False,
}


def in_flight(pipe: SlowPipeline, rank: int) -> int:
    """How many micro-batches a replica may have begun and not finished, warm-up and the next one.

    As many as workers from here on, a replica's share of them, rounded up (PipeDream); so
    p - s where all have as many replicas (1F1B).
    """
    ranks = len(pipe.replicas)
    if pipe.schedule == "interleaved":
        return (ranks - rank - 1) * 2 + (pipe.chunks - 1) * ranks + 1
    return ceil(Fraction(sum(pipe.replicas[rank:]), pipe.replicas[rank]))


def steps(pipe: SlowPipeline, rank: int, replica: int) -> list[Step]:
    """What one replica does, by the rule of its schedule.

    Forward while fewer are in flight than may be, else backward.
    """
    mine = range(replica, pipe.micro_batches * pipe.batches, pipe.replicas[rank])
    if pipe.schedule == "gpipe":
        forth = [("F", m, c) for c in range(pipe.chunks) for m in mine]
        return forth + [("B", m, c) for c in reversed(range(pipe.chunks)) for m in mine]
    if pipe.schedule == "interleaved":
        ranks = len(pipe.replicas)
        groups = [mine[i : i + ranks] for i in range(0, len(mine), ranks)]
        forth = [("F", m, c) for g in groups for c in range(pipe.chunks) for m in g]
        back = [("B", m, c) for g in groups for c in reversed(range(pipe.chunks)) for m in g]
    else:
        forth, back = [("F", m, 0) for m in mine], [("B", m, 0) for m in mine]
    most, found = in_flight(pipe, rank), list[Step]()
    begun = over = 0
    waiting: list[int] = []
    while over < len(back):
        if begun < len(forth) and begun - over < most:
            found.append(forth[begun])
            begun += 1
            continue
        kind, m, c = back[over]
        over += 1
        if pipe.schedule != "zero-bubble":
            found.append((kind, m, c))
            continue
        found.append(("E", m, c))
        waiting.append(m)
        if len(waiting) > rank:  # rank s may owe the gradients of s micro-batches
            found.append(("W", waiting.pop(0), c))
    return found + [("W", m, 0) for m in waiting]


Event = tuple[object, ...]
"""("at", rank, replica, number) the end of an entry; ("sent", ...) the end of a send."""


@dataclass
class Entry:
    """Something that takes time, after others."""

    name: Event
    after: list[Event]
    picoseconds: int
    micro_batch: int


def entries(pipe: SlowPipeline) -> Iterator[Entry]:
    """Everything of a run."""
    for rank, many in enumerate(pipe.replicas):
        for replica in range(many):
            yield from _Replica(pipe, rank, replica).entries()


class _Replica:
    def __init__(self, pipe: SlowPipeline, rank: int, replica: int) -> None:
        self.pipe, self.rank, self.replica = pipe, rank, replica
        self.last: list[Event] = []
        self.number = 0
        self.channel: dict[Event, Event] = {}
        self.got: dict[tuple[int, int], list[Event]] = {}
        """What a stage received of a micro-batch and nothing has waited for yet."""

    def entries(self) -> Iterator[Entry]:
        pipe, ranks = self.pipe, len(self.pipe.replicas)
        flush = FLUSHES[pipe.schedule]
        each = pipe.micro_batches // pipe.replicas[self.rank] if pipe.schedule != "pipedream" else 1
        updates, counted = list[tuple[int, int]](), dict[int, int]()
        senders = {send.target for send in pipe.sends}
        for kind, m, c in steps(pipe, self.rank, self.replica):
            stage = c * ranks + self.rank
            if kind in "BW":
                counted[stage] = counted.get(stage, 0) + 1
            last = kind in "BW" and counted[stage] % each == 0
            at_once = last and stage not in senders  # no errors to send before
            yield from self.step(kind, m, stage, sums=at_once)
            if not last:
                continue
            if not at_once:
                yield self.do(sum(layer.sums for layer in pipe.stages[stage].layers), m)
            yield from self.sums(stage, counted[stage] // each, m)
            if flush:
                updates.append((stage, m))
            else:
                yield self.do(pipe.stages[stage].update, m)
        for stage, m in sorted(updates):
            yield self.do(pipe.stages[stage].update, m)

    def do(self, picoseconds: int, micro_batch: int, after: Sequence[Event] = ()) -> Entry:
        name = ("at", self.rank, self.replica, self.number)
        entry = Entry(name, [*self.last, *after], picoseconds, micro_batch)
        self.last, self.number = [name], self.number + 1
        return entry

    def step(self, kind: str, m: int, stage: int, *, sums: bool) -> Iterator[Entry]:
        mine = self.pipe.stages[stage]
        if kind == "F":
            yield from self.forward(m, stage, again=False)
            return
        if kind in "BE" and mine.recompute:
            yield from self.forward(m, stage, again=True)
        if kind == "W":
            for layer in reversed([layer for layer in mine.layers if not layer.join]):
                yield self.do(layer.weights + layer.sums * sums, m)
            return
        leaving = [s for s in self.pipe.sends if s.source == stage]
        entering = [s for s in self.pipe.sends if s.target == stage]
        # errors of the last layers are there first; of one layer's those of the first producer go
        entering.sort(key=lambda s: (-min(s.readers), s.source, s.producer))
        for v in reversed(range(len(mine.layers))):
            got = self.got.setdefault((stage, m), [])
            came = [s for s in leaving if s.producer == v]
            got += [self.name(s, "back", m) for s in came]
            yield from self.gather(stage, m, [s.gather[1] for s in came])
            if not mine.layers[v].join:
                yield self.do(mine.layers[v].errors, m, self.got.pop((stage, m)))
            if kind == "B":
                if not mine.layers[v].join:
                    yield self.do(mine.layers[v].weights + mine.layers[v].sums * sums, m)
            else:
                first = [s for s in entering if min(s.readers) == v]
                yield from self.send(first, "back", m, stage)
        if kind == "B":
            yield from self.send(entering, "back", m, stage)

    def forward(self, m: int, stage: int, *, again: bool) -> Iterator[Entry]:
        mine = self.pipe.stages[stage]
        for v, layer in enumerate(mine.layers):
            entering = [s for s in self.pipe.sends if s.target == stage and min(s.readers) == v]
            if again:
                if not layer.join:
                    yield self.do(layer.forward, m, [self.name(s, "forth", m) for s in entering])
                continue
            got = self.got.setdefault((stage, m), [])
            got += [self.name(s, "forth", m) for s in entering]
            yield from self.gather(stage, m, [s.gather[0] for s in entering])
            if not layer.join:
                yield self.do(layer.forward, m, self.got.pop((stage, m)))
            leaving = [s for s in self.pipe.sends if s.source == stage and s.producer == v]
            yield from self.send(leaving, "forth", m, stage)

    def gather(self, stage: int, m: int, takes: Sequence[int]) -> Iterator[Entry]:
        for picoseconds in filter(None, takes):
            yield self.do(picoseconds, m, self.got.get((stage, m), []))
            self.got[stage, m] = []

    def name(self, send: SlowSend, way: str, m: int) -> Event:
        return ("sent", self.pipe.sends.index(send), way, m)

    def send(self, sends: Sequence[SlowSend], way: str, m: int, stage: int) -> Iterator[Entry]:
        """Each behind the one before it on the same way between the same two."""
        ranks, replicas = len(self.pipe.replicas), self.pipe.replicas
        for send in sends:
            ends = m % replicas[send.source % ranks], m % replicas[send.target % ranks]
            way_here: Event = (send.source, send.target, way, *ends)
            before = [self.channel[way_here]] if way_here in self.channel else []
            before += self.got.get((stage, m), [])
            name = self.name(send, way, m)
            takes = (send.forth if way == "forth" else send.back)[ends]
            yield Entry(name, [*self.last, *before], takes, m)
            self.channel[way_here] = name
            if self.pipe.blocking:
                self.last = [name]

    def sums(self, stage: int, round_: int, m: int) -> Iterator[Entry]:
        """With all other replicas, when the last of them has come."""
        mine = self.pipe.stages[stage]
        for number, takes in enumerate(mine.replica_sums):
            came = ("came", stage, round_, number)
            yield Entry((*came, self.replica), list(self.last), 0, m)
            everybody = [(*came, r) for r in range(self.pipe.replicas[self.rank])]
            yield self.do(takes, m, everybody)


def ends_of(pipe: SlowPipeline) -> tuple[int, dict[int, int]]:
    """When everything is over, and when each micro-batch is (picoseconds)."""
    left, end = list(entries(pipe)), dict[Event, int]()
    turns: dict[int, int] = {}
    while left:
        later = []
        for entry in left:
            if all(name in end for name in entry.after):
                start = max((end[name] for name in entry.after), default=0)
                end[entry.name] = start + entry.picoseconds
                turns[entry.micro_batch] = max(turns.get(entry.micro_batch, 0), end[entry.name])
            else:
                later.append(entry)
        if len(later) == len(left):
            raise RuntimeError(f"stuck before {later[0].name}")
        left = later
    return max(end.values(), default=0), turns
