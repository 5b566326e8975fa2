"""One replica of a stage: its own step, with what it receives and sends, and sums with others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from planners.order import Item, Kind, Phase
from simulator.engine.operations import Operation, Part, Sent
from simulator.lowering.step.dataflow import MADE, STREAM
from simulator.lowering.step.order import Buckets
from simulator.lowering.step.rules import Rules
from simulator.lowering.step.training_step import Tree, Writer
from simulator.lowering.step.worker_program import Key, WorkerProgram


@dataclass(slots=True, eq=False)
class Port:
    """A tensor that leaves a stage or enters it, with the sends of both directions.

    It has so many ``elements`` a sample. ``nodes`` are those of the stage that make it, or read
    it; ``errors`` go the other way than ``features``. What the stage receives in parts it has to
    ``gather``.
    """

    elements: int
    nodes: tuple[int, ...]
    features: Sent
    errors: Sent
    gather: Operation | None = None
    done: set[Phase] = field(default_factory=set)
    again: set[bool] = field(default_factory=set)
    """Whether that is done again for gradients, and for what runs again before them."""

    @property
    def name(self) -> Key:
        """What is received through it makes this."""
        return ("received", self)


@dataclass(frozen=True, slots=True)
class Sum:
    """An exchange of gradients with other replicas, or stages: of the nodes of a bucket."""

    nodes: tuple[int, ...]
    operation: Operation
    parties: int
    communicator: int


class StageWriter(Writer):
    """The programs of a stage's devices, whose lines come in parts.

    Sends go as soon as what they send is there; received tensors are waited for by
    the first line that needs them.
    """

    def __init__(self, rules: Rules) -> None:
        super().__init__(rules)
        self.entering: list[Port] = []
        self.leaving: list[Port] = []
        self.sums: list[Sum] = []
        self.copies: list[Sum] = []
        """Of weights that another stage has, too."""
        self._summed = False

    def write_all(self) -> None:
        """All parts of the step."""
        for item in self.rules.items:
            self._before(item)
            self._turn_to(self._part_of(item))
            self.write(item)
        self._forward_to(len(self.rules.graph))
        if not self.rules.execution.inference:
            self._send_what_is_left()
            self._sum()

    def _turn_to(self, part: Part) -> None:
        for program in self.programs:
            program.part = part

    def _part_of(self, item: Item) -> Part:
        """Where an item belongs; both gradients of a matmul are errors."""
        if item.phase is Phase.FORWARD:
            return Part.FORWARD
        if item.phase is Phase.UPDATE:
            return Part.UPDATE if item.kind is Kind.COMPUTE else Part.NEW_WEIGHTS
        if item.phase in (Phase.BACKWARD, Phase.RECOMPUTE) or self.rules.graph[item.node].operand:
            return Part.BACKWARD
        if self.rules.scattered(item):
            return Part.WEIGHTS
        return Part.WEIGHTS if item.kind is Kind.COMPUTE else Part.SUMS

    def _before(self, item: Item) -> None:
        """Send what is there, and receive what an item or one behind it needs."""
        if item.phase is Phase.UPDATE and item.kind is not Kind.COMPUTE:
            return
        if item.phase is Phase.UPDATE:
            self._send_what_is_left()
            self._sum()
            return
        if item.phase is Phase.GRADIENT and item.kind is not Kind.COMPUTE:
            return
        if item.kind is Kind.WEIGHTS:
            return
        node = item.consumer if item.kind is Kind.BOUNDARY else item.node
        if item.phase is Phase.FORWARD:
            self._forward_to(node)
            return
        self._forward_to(len(self.rules.graph))
        self._gather_again(item)
        if item.phase is Phase.RECOMPUTE:  # from what is kept, so that nothing is received
            return
        whole = item.phase is Phase.GRADIENT and not self.rules.graph[node].operand
        self._backward_to(node)
        self._send(Phase.BACKWARD, (p for p in self.entering if whole and node in p.nodes[:1]))

    def _forward_to(self, node: int) -> None:
        """Sends of all nodes before one, and what those up to it receive.

        A join whose inputs all come from other stages has no item of its own: its
        receives are written here, before its sends.
        """
        passed = {min(p.nodes) for p in self.entering if Phase.FORWARD not in p.done}
        for v in (*sorted(u for u in passed if u < node), node):
            self._send(Phase.FORWARD, (p for p in self.leaving if max(p.nodes) < v))
            self._receive(Phase.FORWARD, (p for p in self.entering if min(p.nodes) <= v))

    def _backward_to(self, node: int) -> None:
        """The same for errors, the other way round."""
        passed = {max(p.nodes) for p in self.leaving if Phase.BACKWARD not in p.done}
        for v in (*sorted((u for u in passed if u > node), reverse=True), node):
            self._send(Phase.BACKWARD, (p for p in self.entering if min(p.nodes) > v))
            self._receive(Phase.BACKWARD, (p for p in self.leaving if max(p.nodes) >= v))

    def _gather_again(self, item: Item) -> None:
        """What was received by positions is kept so: once for its products again, and gradients."""
        if item.kind is not Kind.COMPUTE or item.node not in self.rules.received_in_parts:
            return
        gradients = item.phase is not Phase.RECOMPUTE
        after = self.flow.errors(item.node) if gradients else [self._behind]
        self._turn_to(Part.BACKWARD)
        for port in self.entering:
            if port.gather and item.node in port.nodes and gradients not in port.again:
                port.again.add(gradients)
                gather = replace(port.gather, phase=Phase.RECOMPUTE)
                takers = self._holders(port)
                for program in takers:
                    program.exchange(gather, after, [port.name], self._parties(takers))

    def _send_what_is_left(self) -> None:
        self._forward_to(len(self.rules.graph))
        self._backward_to(-1)

    def _through(self, phase: Phase, ports: Iterable[Port]) -> Iterator[tuple[Port, Sent]]:
        """Ports through which nothing has gone yet in a phase, each once, and what does."""
        for port in ports:
            if phase not in port.done:
                port.done.add(phase)
                forward = phase is Phase.FORWARD
                self._turn_to(Part.FORWARD if forward else Part.BACKWARD)
                yield port, port.features if forward else port.errors

    def _holders(self, port: Port) -> list[WorkerProgram]:
        return [program for program in self.programs if self.apart or program.holds(port.nodes)]

    def _send(self, phase: Phase, ports: Iterable[Port]) -> None:
        for port, sent in self._through(phase, ports):
            after = [(MADE[phase], node) for node in port.nodes]
            takers = self._holders(port)
            for program in takers:
                program.send(sent.operation, after, self._parties(takers), sent.communicator)

    def _parties(self, takers: Sequence[WorkerProgram]) -> int:
        return self.rules.array.group.size if self.apart else len(takers)

    def _receive(self, phase: Phase, ports: Iterable[Port]) -> None:
        for port, sent in self._through(phase, ports):
            takers, made = self._holders(port), [port.name]
            for program in takers:
                program.receive(sent.operation, port.name)
                if port.gather:
                    program.exchange(port.gather, made, made, self._parties(takers))

    def received(self, item: Item) -> Sequence[Key]:
        """Of a product: features that a node reads, errors of what it makes."""
        if item.phase is Phase.UPDATE:
            return ()
        gathers = item.node in self.rules.received_in_parts and item.phase is not Phase.BACKWARD
        if item.phase is Phase.RECOMPUTE and not gathers:
            return ()
        found = [*(self.entering if gathers or item.phase is Phase.FORWARD else [])]
        found += self.leaving if item.phase in (Phase.BACKWARD, Phase.GRADIENT) else []
        return [port.name for port in found if item.node in port.nodes]

    def _sum(self) -> None:
        """Sums with other replicas, then with other stages, each behind the one before it.

        Without overlap, sums with other stages come when all passes of the place are over: those
        stages may be waiting for one of these passes.
        """
        if self._summed:
            return
        self._summed = True
        behind = Part.SUMS if self.rules.overlap else Part.UPDATE
        for some, part in ((self.sums, Part.SUMS), (self.copies, behind)):
            self._turn_to(part)
            for one in some:
                keys: list[Key] = [("gradient", v) for v in one.nodes]
                keys.append(STREAM)
                for program in self.programs:
                    program.exchange(one.operation, keys, keys, one.parties, one.communicator)

    @cached_property
    def whole(self) -> Tree:
        """The workers and their splits, once all is written."""
        return self.tree()

    def workers(self) -> int:
        """How many workers the stage will be."""
        return self.rules.array.group.size if self.apart else len(self.programs)

    def buckets(self) -> list[tuple[tuple[int, ...], float]]:
        """Nodes whose gradients go together, last first, and the bytes of the core with most."""

        def size(v: int) -> float:
            each = (self.rules.gradient_bytes(v, s.shards[v]) * s.updated[v] for s in self.programs)
            return max(each)

        found: list[tuple[int, ...]] = []
        graph = self.rules.graph
        full = self.rules.bucket_bytes
        buckets = Buckets(graph, size, lambda u, v: True, full)
        for v in reversed(range(len(graph))):
            found += [item.bucket for item in buckets.put(v) if item.bucket]
        found += [item.bucket for item in buckets.rest()]
        return [(nodes, sum(map(size, nodes))) for nodes in found]
