"""What there is to do: operations, templates that say when, workers, and what their HBM holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

import numpy as np

from simulator.engine.jobs import Floats, Ints, Job, Links

MOVING = ("gradients", "activations", "logits", "buffers")
"""Classes of what comes and goes in HBM during a step.

Gradients of weights; what forward keeps for backward; what the last layer makes; and
what lives within one pass, as the errors of activations and what is computed again.
"""
CLASSES = ("weights", "optimizer", *MOVING)
"""All classes: weights as operators read them, and master copies with moments."""

NAMED = 3
"""Of what does not fit: so many devices, or stages, are named in a message."""


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """HBM of all an array's cores of one device: the fullest one's peak, and how many overflow.

    Bytes are a core's. ``operator`` is the first at the peak ("" where all are idle), which
    ``by_class`` has by CLASSES where that is known. ``reserve_bytes`` of the capacity are for
    others than the step.
    """

    device: str
    peak_bytes: float
    capacity_bytes: float
    operator: str
    cores: int
    cores_over: int
    by_class: tuple[float, ...] = ()
    reserve_bytes: float = 0.0

    @property
    def fits(self) -> bool:
        """Whether every core's peak is within its capacity."""
        return self.cores_over == 0

    def __str__(self) -> str:
        return fullness(self.peak_bytes, self.capacity_bytes, self.operator)


def all_classes(
    held_bytes: float, weight_bytes: float, gradient_bytes: float, moving: Sequence[float]
) -> tuple[float, ...]:
    """Bytes of each of CLASSES: of what is held all the time, and of what comes and goes."""
    gradients, *others = moving
    state = held_bytes - weight_bytes - gradient_bytes
    return (weight_bytes, state, gradient_bytes + gradients, *others)


def fullness(peak_bytes: float, capacity_bytes: float, operator: str) -> str:
    """A core's peak against its capacity in words, and the operator at the peak ("": none)."""
    place = f", at {operator}" if operator else ""
    return f"peak {readable(peak_bytes)} of {readable(capacity_bytes)} a core{place}"


def readable(size_bytes: float) -> str:
    """GiB with two digits behind the point, or MiB where that is less than one."""
    if size_bytes >= 2**30:
        return f"{size_bytes / 2**30:.2f} GiB"
    return f"{size_bytes / 2**20:.2f} MiB"


def overflow(network: str, planner: str, array: str, memory: Sequence[DeviceMemory]) -> str | None:
    """What does not fit, where, and what helps; None where everything fits.

    Of more than NAMED devices or stages the fullest ones are named, and the others counted.
    """
    full = [one for one in memory if not one.fits]
    if not full:
        return None
    named = full
    if len(full) > NAMED:
        named = sorted(full, key=lambda one: one.peak_bytes / one.capacity_bytes, reverse=True)
    over = [
        f"{one.device}: {one} ({one.cores_over:,} of {one.cores:,} cores)" for one in named[:NAMED]
    ]
    if others := len(full) - len(over):
        over.append(f"and {others} more")
    if reserved := max(one.reserve_bytes for one in full):
        over.append(f"{readable(reserved)} of it are reserved (--memory-reserve)")
    return (
        f"{network} under {planner} does not fit in the memory of {array}: {'; '.join(over)}; "
        "take a smaller batch, more devices or another planner"
    )


SEND, MEMORY = "send", "memory"
"""The kinds of operation that the engine tells from others; all else is a label to it, as phases
are: a send goes to whoever receives it, and memory is what an HBM does for an operation."""
COMPUTE_LEVEL = -1
"""The ``level`` of operations that run on cores, below every split."""


class Board(Protocol):
    """What the engine asks of the device of a worker, which else is a label to it."""

    @property
    def name(self) -> str:
        """As messages have it."""

    @property
    def chips(self) -> int:
        """Chips of a board."""

    @property
    def cores_per_chip(self) -> int:
        """Cores of a chip."""

    @property
    def cores(self) -> int:
        """Cores of a board."""

    @property
    def hbm_capacity_bytes(self) -> float:
        """Of a chip."""

    @property
    def energy(self) -> object:
        """None where nobody knows what it takes."""


class Wired(Protocol):
    """What the engine asks of wires: the ``bandwidth`` (B/s) of each link."""

    @property
    def bandwidth(self) -> Floats:
        """By the links' numbers."""


class Groups(Protocol):
    """Who exchanges with whom."""

    def rows(self) -> Ints:
        """Numbers of cores in the array, a group a row."""


@dataclass(frozen=True, slots=True, eq=False)
class Operation:
    """What is done, written once and run as often as workers and micro-batches ask for it.

    On cores (``level`` is COMPUTE_LEVEL) it takes ``duration_ps``, or as long
    as the core's HBM needs for ``hbm_bytes`` where others slow that down;
    ``flops`` and bytes are one core's, and ``bound_s`` the seconds of it that its
    FLOPs, its HBM traffic and fixed overheads account for, ``work_s`` those of its products,
    fused attention and element-wise work. It keeps that ``unit`` of
    the core busy, where a worker's cores have several (``Worker.units``).

    An exchange has the ``level`` of its split (0 at the top). The
    interconnect carries its ``jobs`` one after the other; where it has none
    it takes ``duration_ps``. ``received`` are the bytes that the first and the
    second side receive, both at once. ``energy_j`` goes with these amounts. Where only some
    exchange with each other, and others do so meanwhile, ``groups`` says who.
    """

    kind: str
    phase: str
    layer: str
    level: int = COMPUTE_LEVEL
    duration_ps: int = 0
    received: tuple[float, float] = (0.0, 0.0)
    flops: float = 0.0
    hbm_bytes: float = 0.0
    energy_j: float = 0.0
    jobs: tuple[Job, ...] = ()
    bound_s: tuple[float, float, float] = (0.0, 0.0, 0.0)
    unit: int = 0
    work_s: tuple[float, ...] = ()
    groups: tuple[Groups, ...] = ()

    @property
    def bytes(self) -> float:
        """Bytes in both directions together."""
        return self.received[0] + self.received[1]

    def traffic(self) -> Operation:
        """What a core's HBM does meanwhile, as an operation of its own."""
        received = (self.hbm_bytes, 0.0)
        return Operation(MEMORY, self.phase, self.layer, received=received)

    def __str__(self) -> str:
        place = "" if self.level == COMPUTE_LEVEL else f" at level {self.level}"
        return f"{self.phase} {self.kind} of {self.layer}{place}"


class Holding(NamedTuple):
    """How a computation changes the bytes in its worker's HBM.

    ``most`` is the largest number of bytes while it runs, and ``more`` the number afterwards, both
    above those before it. ``most_by`` and ``more_by`` are the same by memory class (``MOVING``),
    where these are known. The most is held ``at`` that operator, where somebody says so.
    """

    most: float = 0.0
    more: float = 0.0
    most_by: tuple[float, ...] = ()
    more_by: tuple[float, ...] = ()
    at: str = ""


NOTHING_HELD = Holding()


class Task(NamedTuple):
    """One line of a worker's template: an operation, and which earlier lines it waits for.

    Where ``parties`` is not 0 it is an exchange, which begins when so many
    workers have come to it, at ``communicator`` (None: at the worker's own of its level). A
    send goes to whoever receives it, a line of its own with the same operation and
    no parties. ``held`` is how it changes the bytes in the worker's HBM. Of these,
    ``accumulated`` bytes are summed gradients: the first micro-batch alone allocates them.
    """

    operation: Operation
    needs: tuple[int, ...] = ()
    parties: int = 0
    held: Holding = NOTHING_HELD
    communicator: int | None = None
    accumulated: float = 0.0

    @property
    def computes(self) -> bool:
        """Whether it is something for cores to do."""
        return not self.parties and self.operation.kind != SEND

    @property
    def receives(self) -> bool:
        """Whether it waits for what another worker sends."""
        return not self.parties and self.operation.kind == SEND


class Part(StrEnum):
    """Which lines of a template belong together, for those who do not follow it as a whole."""

    FORWARD = "F"
    BACKWARD = "B"
    """Errors: what goes back to the producers."""
    WEIGHTS = "W"
    """The gradients of weights."""
    SUMS = "G"
    """The exchange of gradients."""
    UPDATE = "U"
    NEW_WEIGHTS = "N"
    """Weights that others updated, gathered before the first forward that needs them."""


class Instruction(NamedTuple):
    """Some parts of a stage's lines, in their order, for one micro-batch (``micro_batch``).

    Sums of gradients that take in several micro-batches go with the last of them, ``round``. With
    ``again`` forward is computed once more first, without what was received or sent.
    """

    parts: frozenset[Part]
    stage: int
    micro_batch: int
    round: int = 0
    again: bool = False

    def __str__(self) -> str:
        letters = "".join(part for part in Part if part in self.parts)
        return f"{'R' * self.again}{letters}{self.micro_batch}" + (
            f" of {self.stage}" if self.stage else ""
        )


class Communicator(NamedTuple):
    """A split, where exchanges of its two sides are recorded; it stands for ``multiplicity``.

    What is between stages, or replicas, has a ``name`` instead of a level.
    """

    level: int
    multiplicity: int = 1
    name: str = ""


class Sent(NamedTuple):
    """A send, and the communicator at which it is recorded."""

    operation: Operation
    communicator: int


Sends = Literal["beside", "waited for", "rendezvous"]
"""How a worker goes on while it sends to another stage."""


@dataclass(frozen=True, slots=True, eq=False)
class RankProgram:
    """In which order a worker follows parts of its template, for which micro-batches.

    ``lines`` has those of each stage and part; ``rank`` and ``replica`` say whose it
    is. A line that sends, or receives, does so with one of several operations,
    where its operation has ``routes``: by micro-batch, modulo their number. Without
    ``overlap`` every line waits for what the worker did before, its ``sends`` too unless they go
    on "beside". In a "rendezvous" a send begins when its receiver is ready, and both wait until it
    is over; a worker sends what a pass made before the next one, as it receives, one after the
    other. A micro-batch is computed with its entry of ``versions`` of the weights, the
    number of updates before; a stage that computes forward again keeps its
    ``inputs`` (bytes) meanwhile.
    """

    instructions: tuple[Instruction, ...]
    lines: Mapping[tuple[int, Part], tuple[int, ...]]
    routes: Mapping[Operation, tuple[Sent, ...]] = field(default_factory=dict)
    rank: int = 0
    replica: int = 0
    overlap: bool = True
    sends: Sends = "beside"
    versions: Mapping[int, int] = field(default_factory=dict)
    inputs: Mapping[int, float] = field(default_factory=dict)

    def of(self, instruction: Instruction) -> tuple[int, ...]:
        """The lines of an instruction, in the template's order."""
        found = [
            line
            for part in instruction.parts
            for line in self.lines.get((instruction.stage, part), ())
        ]
        return tuple(sorted(found))


@dataclass(frozen=True, slots=True, eq=False)
class Worker:
    """Boards, or single cores, that do the same at the same time: one is simulated for all.

    There are ``multiplicity`` of them; ``first`` is the lowest of their numbers in the array. Of a
    board, ``chips`` chips with ``cores_per_chip``
    cores each are simulated; the others do as they do. ``communicators`` are the
    numbers of the splits above it, the top one first. ``hbm`` is the number of
    the memory link that its operations' bytes cross (None: they are not
    followed); before its first operation ``held_bytes`` are in it, of which weights as
    operators read them are ``weight_bytes``, and a buffer of gradients ``gradient_bytes``.
    Where a core has several ``units`` (their names), each does one operation at a time, and
    all share that memory. In micro-batch n its cores take ``pace(n)`` times as long, and
    ``contention`` longer while it sends or takes part in collectives. With an
    ``rank_program`` it does not follow its template once, but parts of it, for many micro-batches.
    """

    device: Board
    template: tuple[Task, ...] = ()
    communicators: tuple[int, ...] = ()
    multiplicity: int = 1
    first: int = 0
    unit: Literal["board", "chip", "core"] = "board"
    chips: int = 1
    cores_per_chip: int = 1
    hbm: int | None = None
    held_bytes: float = 0.0
    weight_bytes: float = 0.0
    gradient_bytes: float = 0.0
    pace: Callable[[int], float] | None = None
    rank_program: RankProgram | None = None
    units: tuple[str, ...] = ()
    contention: float = 0.0

    def followed(self, micro_batch: int = 0) -> RankProgram:
        """Its rank program; without one, its template once."""
        if self.rank_program is not None:
            return self.rank_program
        once = Instruction(frozenset({Part.FORWARD}), 0, micro_batch)
        return RankProgram((once,), {(0, Part.FORWARD): tuple(range(len(self.template)))})

    @property
    def cores(self) -> int:
        """Cores of the array that it stands for."""
        return self.multiplicity * (1 if self.unit == "core" else self.device.cores)


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    """The workers, and what they meet at and share.

    ``communicators`` are the splits, parents first; ``wires`` has the links that jobs
    name (or ``links`` instead of them), ``hbms`` the
    bandwidths (B/s) of the memory links that follow them: each shared by nobody
    but its workers. ``memory`` says how full each device's HBM gets. Of so many ``pipelines``
    that do the same one is followed, with its links.
    """

    workers: tuple[Worker, ...]
    communicators: tuple[Communicator, ...] = ()
    wires: Wired | None = None
    links: Links | None = None
    hbms: tuple[float, ...] = ()
    memory: tuple[DeviceMemory, ...] = ()
    pipelines: int = 1

    def followed(self) -> Links:
        """The links that a run follows."""
        if self.links is not None:
            return self.links
        return Links(self.wires.bandwidth if self.wires else np.zeros(0))
