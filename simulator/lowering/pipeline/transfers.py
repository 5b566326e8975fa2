"""What goes between stages, and between replicas of a stage: sends, and sums of gradients.

Published, a send takes the tensor's bytes over one accelerator's port, the
slower side's, as an exchange of a split does, and none at all between stages at one
place; on a bus all boundaries of a
pipeline share the one medium evenly. R replicas sum W bytes in a ring,
2 (R - 1) / R W over a port. Deployed, every core sends what another one reads over
the array's wires (``deliveries``), and replicas sum in the cheapest collective.

How cores of one stage get from another what they read: whole, or in parts that they gather.

Where R cores read the same, each may be sent all of it, or 1/R, and all of them gather the
parts (Narayanan et al. 2021, section 4.1, "scatter/gather"; under sequence parallelism the
tensor lies in such parts anyway). Eight accelerators of a node that read 160 MB
each over ports of 50 GB/s wait 3.2 ms for the whole, and 0.4 ms for parts, which their
fast links gather in as much again. The quicker way is taken.

Sends go on by themselves. Gathering is the readers' own exchange, the first of the pass that
reads it: so Megatron-LM does, in the communicator of their other exchanges.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hardware import Array, Wires, wires_of
from planners.order import Kind, Phase
from simulator.collectives.choice import offer
from simulator.collectives.groups import Members, Rows, StridedGroups
from simulator.collectives.messages import farthest
from simulator.collectives.swaps import swap
from simulator.cost.energy import transfer_j_per_byte
from simulator.engine.jobs import Job, Load
from simulator.engine.operations import Operation
from simulator.engine.picoseconds import duration_ps
from simulator.lowering.execution import Execution
from simulator.lowering.step.rules import Rules
from simulator.sharding.regions import (
    SIDES,
    Messages,
    Regions,
    Together,
    in_parts,
    messages,
    once_for_all,
    regions,
)
from simulator.sharding.spec import INPUT, OPERAND, POSITIONS, Placement, made_by

BETWEEN = -2
"""The ``level`` of what goes between stages or replicas."""


class Handed(NamedTuple):
    """What brings a tensor from one replica to another: a send, and what readers do with it."""

    send: Operation
    gather: Operation | None = None
    """Of the parts that they were sent, at the top split of their stage."""


Swapped = tuple[int, tuple[Job, ...], tuple[Members, ...]]
Replicas = tuple[Rules, Rules]
"""A replica of the stage that makes a tensor, and one of that which reads it."""


class PublishedBetween:
    """Sends and sums on the papers' links: each boundary has its own, in each direction.

    ``boundaries`` of the array are in use.
    """

    def __init__(self, array: Array, execution: Execution, boundaries: int) -> None:
        self.array, self.execution, self.boundaries = array, execution, boundaries

    def hand(
        self,
        pairs: Sequence[Replicas],
        ends: tuple[int, Sequence[int]],
        elements: int,
        phase: Phase,
        layer: str,
    ) -> list[Handed]:
        """A tensor of so many elements a sample, from a node of a stage to nodes of another.

        For each pair of replicas; backward its gradient goes the other way.
        """
        del ends
        return [Handed(self._send(pair, elements, phase, layer)) for pair in pairs]

    def by_positions(
        self, source: Rules, target: Rules, producer: int, consumers: Sequence[int]
    ) -> tuple[bool, set[int]]:
        """Whether a tensor is sent by positions that its producer has not, and who gathers it."""
        del source, target, producer, consumers
        return False, set()

    def _send(self, pair: Replicas, elements: int, phase: Phase, layer: str) -> Operation:
        source, target = pair
        receiver = target if phase is Phase.FORWARD else source
        here = source.array.first == target.array.first
        size = 0.0 if here else float(source.plan.batch * elements) * self._element_bytes
        rate = min(_port(source.array), _port(target.array)) / self._streams
        return Operation(
            Kind.SEND,
            phase,
            layer,
            BETWEEN,
            duration_ps(size, rate),
            received=(size, 0.0),
            energy_j=size * transfer_j_per_byte(receiver.array.group),
        )

    @property
    def _element_bytes(self) -> float:
        return self.array.group.arithmetic.element_bytes

    @property
    def _streams(self) -> int:
        """How many share a link: on a bus all boundaries, in both directions."""
        return 2 * max(self.boundaries, 1) if self.array.topology.shared else 1

    def sums(self, replicas: Sequence[Array], size: float, layer: str) -> Operation:
        """Replicas sum ``size`` bytes of gradients that each core has (the most that one has).

        Where replicas have unlike numbers of cores, ``size`` is that of the first one's.
        """
        many = len(replicas)
        each = 2.0 * (many - 1) / many * size
        rate = min(_port(one) for one in replicas) / self._streams
        moved = each * many * replicas[0].group.size
        joules = moved * transfer_j_per_byte(replicas[0].group)
        most = each * replicas[0].group.size / min(one.group.size for one in replicas)
        return _sum(layer, moved / 2, joules, duration_ps(most, rate))

    def copies(self, owner: Rules, user: Rules, ends: tuple[int, int], layer: str) -> Operation:
        """Two stages that have a weight each, of nodes ``ends``, sum its gradients."""
        size = self._copied(owner, ends[0])
        joules = size * sum(transfer_j_per_byte(one.array.group) for one in (owner, user))
        return _sum(layer, size, joules, *self._swapped(owner, user, size))

    def _copied(self, owner: Rules, v: int) -> float:
        """Bytes of the gradients of a weight that all of a stage exchange with another one."""
        return owner.gradient_bytes(v, owner.root.shards[v])

    def _swapped(self, owner: Rules, user: Rules, size: float) -> Swapped:
        """How long two stages take to send each other so many bytes, or the jobs that do it.

        And who sends to whom.
        """
        rate = min(_port(owner.array), _port(user.array)) / self._streams
        return duration_ps(size, rate), (), ()


class DeployedBetween(PublishedBetween):
    """The same on the array's wires."""

    def __init__(self, array: Array, execution: Execution, boundaries: int) -> None:
        super().__init__(array, execution, boundaries)
        self.wires: Wires = wires_of(array)

    def hand(  # noqa: D102
        self,
        pairs: Sequence[Replicas],
        ends: tuple[int, Sequence[int]],
        elements: int,
        phase: Phase,
        layer: str,
    ) -> list[Handed]:
        forward = phase is Phase.FORWARD
        one, other = pairs[0]
        gatherers = other.received_in_parts & {*ends[1]}, one.sent_in_parts & {ends[0]}
        in_parts = bool(gatherers[0 if forward else 1])
        ways = []
        for source, target in pairs:
            size = float(source.plan.batch * elements) * self._element_bytes
            regions_ = self._layouts(source, target, *ends, forward=forward)
            known = deliveries(self.wires, regions_, size, self.execution.algorithm)
            ways.append(known[-1:] if in_parts else known)
        found = []
        for (source, target), way in zip(pairs, quicker(ways), strict=True):
            receiver = target if forward else source
            send = _operation(way.sent, Kind.SEND, phase, layer, BETWEEN, receiver)
            own = receiver.root.level
            gather = _operation(way.gathered, Kind.BOUNDARY, phase, layer, own, receiver)
            if in_parts:  # as all that tensor parallelism exchanges
                gather = receiver.hiding(gather, "all-gather")
            found.append(Handed(send, gather if gather.jobs else None))
        return found

    @property
    def _element_bytes(self) -> float:
        return self.array.group.arithmetic.activation_bytes

    def by_positions(  # noqa: D102
        self, source: Rules, target: Rules, producer: int, consumers: Sequence[int]
    ) -> tuple[bool, set[int]]:
        there = self._regions(source, producer, made_by(source.graph, producer), held=True)
        products = [v for v in consumers if not target.graph[v].operand]
        here = {v: self._regions(target, v, INPUT, held=False) for v in products}
        pieces = {v: len(set(one.bounds[:, SIDES[POSITIONS][0]])) for v, one in here.items()}
        own = len(set(there.bounds[:, SIDES[POSITIONS][0]]))
        most = max([own, *pieces.values()])
        return own < most, {v for v, number in pieces.items() if number < most}

    def _layouts(
        self,
        source: Rules,
        target: Rules,
        producer: int,
        consumers: Sequence[int],
        *,
        forward: bool,
    ) -> list[tuple[Regions, Regions]]:
        """Held and wanted, for every layout in which the tensor is read, once."""
        there = self._regions(source, producer, made_by(source.graph, producer), held=forward)
        layouts: dict[bytes, Regions] = {}
        for node in consumers:
            read = OPERAND if target.graph[node].operand else INPUT
            here = self._regions(target, node, read, held=not forward)
            layouts[here.bounds.tobytes() + here.cores.tobytes()] = here
        found = list(layouts.values())
        kept = [found[k] for k in once_for_all(found, wanted=forward)]
        return [(there, here) if forward else (here, there) for here in kept]

    def _regions(
        self, rules: Rules, node: int, by_type: Sequence[Placement], *, held: bool
    ) -> Regions:
        whole = self.execution.whole_shards
        return regions(rules.root, rules.array.first, node, by_type, whole=whole, once=held)

    def sums(self, replicas: Sequence[Array], size: float, layer: str) -> Operation:  # noqa: D102
        sizes = [one.group.size for one in replicas]
        pieces = math.lcm(*sizes)  # of tp 2 and 4 four: a core of the two has part in two sums
        rows = np.stack(
            [one.first + np.arange(pieces) * one.group.size // pieces for one in replicas], axis=1
        )
        size *= sizes[0] / pieces
        turns = pieces // min(sizes)  # one behind the other, so that no core is in two at once
        turned = [rows[turn::turns] for turn in range(turns)]
        groups = tuple(StridedGroups.of(some) or Rows(some) for some in turned)
        offers = [
            offer(self.wires, "all-reduce", members, size, self.execution.algorithm)
            for members in groups
        ]
        jobs = tuple(job for one in offers for job in one.jobs())
        many = len(replicas)
        moved = 2.0 * (many - 1) / many * size * pieces * many
        joules = moved * transfer_j_per_byte(replicas[0].group)
        return _sum(layer, moved / 2, joules, jobs=jobs, groups=groups)

    def _copied(self, owner: Rules, v: int) -> float:
        """Each core's own part, as in Megatron-LM: ways of data do not share it out."""
        return owner.tied_largest(v) * owner.array.group.size

    def _swapped(self, owner: Rules, user: Rules, size: float) -> Swapped:
        arrays = owner.array, user.array
        cores = [array.first + np.arange(array.group.size) for array in arrays]
        to_each = [size / array.group.size for array in arrays]
        alike = len(cores[0]) == len(cores[1])
        groups = (Rows(np.stack(cores, axis=1)),) if alike else ()
        return 0, swap(self.wires, *cores, *to_each), groups


def _sum(
    layer: str,
    received: float,
    joules: float,
    took_ps: int = 0,
    jobs: tuple[Job, ...] = (),
    groups: tuple[Members, ...] = (),
) -> Operation:
    """A sum of gradients of which both halves of those who take part receive so many bytes."""
    both = received, received
    of = Kind.SUMS, Phase.GRADIENT, layer, BETWEEN, took_ps
    return Operation(*of, received=both, energy_j=joules, jobs=jobs, groups=groups)


def _operation(
    what: Carried, kind: Kind, phase: Phase, layer: str, level: int, receiver: Rules
) -> Operation:
    return Operation(
        kind,
        phase,
        layer,
        level,
        received=(what.moved, 0.0),
        energy_j=what.moved * transfer_j_per_byte(receiver.array.group),
        jobs=what.jobs,
        groups=what.groups,
    )


def _port(array: Array) -> float:
    """The slowest accelerator's, B/s."""
    return min(device.network_bytes_per_s for device, _ in array.group.kinds)


def between(array: Array, execution: Execution, boundaries: int) -> PublishedBetween:
    """Those of an execution model, on an array as it plans for it."""
    kind = DeployedBetween if execution.model == "deployed" else PublishedBetween
    return kind(array, execution, boundaries)


class Carried(NamedTuple):
    """What the links do, how many bytes cores receive by it, how long it takes alone, and whose."""

    jobs: tuple[Job, ...] = ()
    moved: float = 0.0
    alone_ps: int = 0
    groups: tuple[Members, ...] = ()


class Delivery(NamedTuple):
    """A way to bring a tensor to those who read it: what they are sent, and gather of that."""

    sent: Carried
    gathered: Carried = Carried()

    @property
    def alone_ps(self) -> int:
        """How long both take, one behind the other, when nobody else uses their links."""
        return self.sent.alone_ps + self.gathered.alone_ps


def deliveries(
    wires: Wires, pairs: Iterable[tuple[Regions, Regions]], size: float, algorithm: str
) -> list[Delivery]:
    """The ways to bring every ``wanted`` region from those that are held, at once.

    The whole to each; and in parts, or the same again where nobody shares them out.
    ``pairs`` are what is held (everything once) and wanted; ``size`` is the whole tensor's.
    """
    known = list(pairs)
    whole = Delivery(sent_together(wires, [messages(*pair) for pair in known], size))
    parts = [in_parts(*pair) for pair in known]
    if all(together is None for _, together in parts):
        return [whole, whole]
    sent = sent_together(
        wires, [messages(pair[0], own) for pair, (own, _) in zip(known, parts, strict=True)], size
    )
    gathered = [_gathered(wires, one, size, algorithm) for _, one in parts if one]
    return [
        whole,
        Delivery(
            sent,
            Carried(
                tuple(job for one in gathered for job in one.jobs),
                sum(one.moved for one in gathered),
                sum(one.alone_ps for one in gathered),
                tuple(some for one in gathered for some in one.groups),
            ),
        ),
    ]


def quicker(ways: Sequence[Sequence[Delivery]]) -> list[Delivery]:
    """Of several senders' ``deliveries`` the way that takes them less time together."""
    return list(min(zip(*ways, strict=True), key=lambda way: sum(one.alone_ps for one in way)))


def sent_together(wires: Wires, all_: Sequence[Messages], size: float) -> Carried:
    """All messages at once, at one pace."""
    found = Messages(*(np.concatenate(parts) for parts in zip(*all_, strict=True)))
    if not len(found.sources):
        return Carried()
    largest = float(found.shares.max())
    flows = wires.loads(found.sources, found.targets, found.shares / largest)
    links = np.flatnonzero(flows)
    far = farthest(wires, found.sources, found.targets)
    latency_s = wires.message_latency_s(*far)
    job = Job("send", Load(links, flows[links]), largest * size, latency_s)
    job = _by_protocols(wires, found, job)
    return Carried((job,), float(found.shares.sum()) * size, job.alone_ps(wires.bandwidth))


def _by_protocols(wires: Wires, sent: Messages, job: Job) -> Job:
    """Messages as large ones go, or by what their tier has for direct ones, where that is sooner.

    A send is what all-to-all is made of: NCCL has the same protocols for both.
    """
    tiers = {subnet.tier for subnet, _ in wires.by_subnet(sent.sources, sent.targets)}
    tier = tiers.pop() if len(tiers) == 1 else None
    ways = [
        replace(
            job,
            flow_bytes=job.flow_bytes / by.share,
            latency_s=by.start_s + by.step_s,
            crossing=job.crosses,
        )
        for by in (tier.protocols if tier else ())
        if by.algorithm == "direct"
    ]
    return min([job, *ways], key=lambda one: one.alone_ps(wires.bandwidth))


def _gathered(wires: Wires, of: Together, size: float, algorithm: str) -> Carried:
    """Each core's part, to all who want the same."""
    members = StridedGroups.of(of.groups) or Rows(of.groups)
    bytes_ = of.share * size
    found = offer(wires, "all-gather", members, bytes_, algorithm)
    count, each = of.groups.shape
    return Carried(found.jobs(), bytes_ * (each - 1) * count, found.alone_ps, (members,))
