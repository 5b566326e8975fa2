"""A training step as a program: who does what, in which order, and who waits for whom.

There is one way to write it. Rules say how the work is divided, what
computing it takes, and which exchanges it needs.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from hardware import Wires
from planners.order import Item, Kind, Phase
from planners.partition import Shard
from planners.plan.updates import LAYERS
from simulator.analysis.memory_timeline import device_memory
from simulator.collectives.symmetry import byte_s
from simulator.engine.errors import OutOfMemoryError
from simulator.engine.operations import (
    Communicator,
    DeviceMemory,
    Operation,
    Program,
    Worker,
    overflow,
)
from simulator.engine.picoseconds import PICOSECONDS
from simulator.lowering.step.dataflow import MADE, Dataflow
from simulator.lowering.step.rules import Rules
from simulator.lowering.step.worker_program import Key, WorkerProgram
from simulator.lowering.units.order import compute_on_units, order_by_units
from simulator.sharding.blocks import DeviceClass
from simulator.sharding.mesh import Mesh

HOST = "waiting for the host"
"""Stands for a layer where a core waits while its host launches layers of experts."""


def training_step(rules: Rules, *, memory: bool = True) -> Program:
    """The program of one training step by these rules.

    Folded, a worker stands for all devices that do the same, and a communicator for
    all splits; without it every device is a worker, and every split a communicator. If nobody asks
    for its ``memory``, without that.
    """
    writer = Writer(rules, memory=memory)
    for item in rules.items:
        writer.write(item)
    tree, wires = writer.tree(), rules.wires
    communicators, workers = tuple(tree.communicators), tuple(tree.workers)
    held = memory_of(rules, workers, [""] * len(workers)) if memory else ()
    return Program(workers, communicators, wires, None, tuple(tree.hbms), memory=held)


def alone_s(wires: Wires | None, operation: Operation) -> float:
    """An exchange when nobody else uses its links."""
    if wires is None or not operation.jobs:
        return operation.duration_ps / PICOSECONDS
    return math.fsum(
        byte_s(job.load, wires) * job.flow_bytes + job.latency_s for job in operation.jobs
    )


def memory_of(
    rules: Rules, workers: Sequence[Worker], names: Sequence[str]
) -> tuple[DeviceMemory, ...]:
    """How full each device's HBM gets; ``names`` are the workers' places.

    Nothing where the rules do not say. Raises OutOfMemoryError where it must fit.
    """
    plan, execution = rules.plan, rules.execution
    if execution.model != "deployed":
        return ()
    found = device_memory(workers, names, execution.memory_reserve)
    fault = overflow(plan.network, plan.planner, rules.array.name, found)
    if fault and execution.strict_memory:
        raise OutOfMemoryError(fault)
    return found


class Writer:
    """The programs of all classes of devices, as far as they are written.

    Devices that share a program although each is a worker are set ``apart``.
    """

    def __init__(self, rules: Rules, *, memory: bool = True) -> None:
        self.rules = rules
        self._memory = memory
        self.apart = rules.shared and not rules.folded
        self.flow = Dataflow(rules.graph, rules.plan.updates)
        self._under: dict[Mesh, tuple[WorkerProgram, ...]] = {}
        self._begins: Counter[WorkerProgram] = Counter()
        """The line with which the pass begins that is written."""
        self._behind: Key = (MADE[Phase.FORWARD], len(rules.graph) - 1)
        """What recomputation waits for; it could start as soon as forward is over."""
        self.programs = self._open(rules.root)

    def _open(self, part: Mesh) -> tuple[WorkerProgram, ...]:
        """A program for every class of devices; ``_under`` has those of each part."""
        if part.halves:
            found = tuple(s for half in part.distinct() for s in self._open(half))
        else:
            classes, updated = part.classes(folded=self.rules.shared), self.rules.updated(part)
            found = tuple(self._script(part, alike, updated) for alike in classes)
        self._under[part] = found
        return found

    def _script(self, part: Mesh, alike: DeviceClass, updated: Sequence[float]) -> WorkerProgram:
        device = part.group.kinds[0][0]
        use = self.rules.memory_use(device, alike.shards, updated) if self._memory else None
        return WorkerProgram(
            device,
            alike.shards,
            updated,
            alike.cores * part.copies.count,
            part.copies.first + alike.first,
            in_order=not self.rules.overlap,
            held=use.by_product() if use else {},
            held_bytes=use.held_bytes if use else 0.0,
            once=use.accumulated if use else {},
            weight_bytes=use.weight_bytes if use else 0.0,
            gradient_bytes=use.gradient_bytes if use else 0.0,
            units=self.rules.units(device),
            kind=[one for one, _ in self.rules.array.group.kinds].index(device),
        )

    def write(self, item: Item) -> None:
        """Append what a step asks of everybody."""
        after, makes = self.flow.of(item) if self.rules.overlap else ([], [])
        if item.kind is Kind.COMPUTE:
            self._compute(item, [*after, *self.received(item)], makes)
            return
        own, siblings, leads = self._siblings(item)
        if self.rules.overlap and item.phase is not Phase.UPDATE and item.kind is Kind.BOUNDARY:
            sources = self.flow.sources(item)
            if own != leads and item.phase.computes_features:
                sources = [self.flow.moved(replace(item, consumer=leads))]
            if item.phase is Phase.RECOMPUTE:
                sources = [*sources, self._behind]
            for program in self.programs:
                program.hand_on(sources, makes)
        if own != leads:
            return
        if self.rules.overlap and item.phase is Phase.BACKWARD:
            after = [*after, *((MADE[Phase.BACKWARD], v) for v in siblings if v != own)]
        for exchange in self.rules.exchanges(item):
            part = exchange.part
            takers: Sequence[WorkerProgram] = self._under[part]
            if exchange.nodes:
                takers = [program for program in takers if program.holds(exchange.nodes)]
            parties = part.group.size if self.apart else len(takers)
            operation = self.rules.carry(exchange)
            for program in takers:
                program.exchange(operation, after, makes, parties)

    def _siblings(self, item: Item) -> tuple[int, Sequence[int], int]:
        """Whose input an exchange is of, who shares it, and whose exchange is for all of them.

        That of the first one; of what is gathered again for gradients, backward, the last.
        """
        own = item.consumer if item.kind is Kind.BOUNDARY else item.node
        errors = item.kind is Kind.SUMS and item.phase is Phase.BACKWARD
        if not errors and (item.kind is not Kind.BOUNDARY or item.phase is Phase.UPDATE):
            return own, (own,), own
        siblings = self.rules.siblings(own)
        again = item.phase is Phase.RECOMPUTE and item.bucket
        return own, siblings, siblings[-1 if again else 0]

    def received(self, item: Item) -> Sequence[Key]:
        """What a product waits for that others send."""
        del item
        return ()

    def _compute(self, item: Item, after: Sequence[Key], makes: Sequence[Key]) -> None:
        v, phase = item.node, item.phase
        stack = self.rules.array.stack
        if phase is Phase.GRADIENT and stack and stack.tensor_waits and self.rules.overlap:
            after = [*after, (MADE[Phase.BACKWARD], v)]
        if phase is Phase.BACKWARD:
            self._behind = (MADE[phase], v)
        made: dict[tuple[int, Shard, float], Sequence[Operation]] = {}
        for program in self.programs:
            updated = program.updated[v] if phase is Phase.UPDATE else 1.0
            key = (program.kind, program.shards[v], updated)
            if key not in made:
                of = (v, phase, program.shards[v], program.device, updated)
                made[key] = self.rules.operations(*of)
            if program.units:
                waits = [*after, self._behind] if phase is Phase.RECOMPUTE else after
                joined = bool(self.rules.graph[v].operand)
                compute_on_units(program, item, made[key], waits, makes, joined=joined)
                continue
            for operation in made[key]:
                program.compute(v, operation, after, makes)
            if made[key] and self.rules.execution.model == "deployed":
                self._wait_for_host(program, item, after, makes)
            if not made[key] and self.rules.overlap and not program.idle:
                program.hand_on(after, makes)

    def _wait_for_host(
        self, program: WorkerProgram, item: Item, after: Sequence[Key], makes: Sequence[Key]
    ) -> None:
        """Behind the last of a pass: append what its host still needs to start it all.

        For each layer of experts it needs ``host_layer_s``, a third of it forward, and again where
        that is computed again: it has to know how many tokens go where, so that it cannot have
        started what is behind. The core has computed and waited meanwhile.
        """
        host_s, graph = program.device.roofline.host_layer_s, self.rules.graph
        forward = item.phase is Phase.FORWARD
        of_pass = forward or item.phase in (Phase.BACKWARD, Phase.GRADIENT)
        if not host_s or not of_pass or item.node != (len(graph) - 1 if forward else 0):
            return
        layers, again = self.rules.dispatches
        host_s *= (layers if forward else 2 * layers + again) / 3
        late_ps = round(host_s * PICOSECONDS) - self._passed_ps(program)
        if late_ps > 0:
            bound_s = 0.0, 0.0, late_ps / PICOSECONDS
            wait = Operation(Kind.COMPUTE, item.phase, HOST, duration_ps=late_ps, bound_s=bound_s)
            program.wait(wait, after, makes)
        if forward:
            self._begins[program] = len(program.tasks)

    def _passed_ps(self, program: WorkerProgram) -> int:
        """From the begin of the pass that is written to the end of its last product, when alone.

        An exchange takes time only where something waits for it: the host goes on meanwhile.
        What another stage sends, and new weights, have come before the pass begins.
        """
        core_ps, ends, tasks = 0, dict[int, int](), program.tasks
        for line in range(self._begins[program], len(tasks)):
            operation, needs = tasks[line].operation, tasks[line].needs
            ready_ps = max((ends.get(need, 0) for need in needs), default=0)
            if tasks[line].computes:
                core_ps = ends[line] = max(core_ps, ready_ps) + operation.duration_ps
            elif tasks[line].receives or operation.phase is Phase.UPDATE:
                ends[line] = 0
            else:
                took_s = alone_s(self.rules.wires, operation)
                ends[line] = ready_ps + round(took_s * PICOSECONDS)
        return core_ps

    def _hold(self, program: WorkerProgram) -> None:
        """Say what its operators hold in the order in which units do them."""
        tasks = program.tasks
        lines = [line for line in program.order() if tasks[line].computes]
        done = [tasks[line].operation for line in lines]
        use = self.rules.memory_use(program.device, program.shards, program.updated, done)
        if use is None:
            return
        for line, (of, held) in zip(lines, use.by_product().items(), strict=True):
            once = use.accumulated.get(of, 0.0)
            tasks[line] = tasks[line]._replace(held=held, accumulated=once)

    def tree(self) -> Tree:
        """The workers and their splits, from the top down, as they are written so far."""
        rules, exchange_s = self.rules, partial(alone_s, self.rules.wires)
        in_layers = rules.update_order == LAYERS
        order_by_units(self.programs, rules.choices, exchange_s, in_layers=in_layers)
        for program in self.programs:
            if program.units and self._memory:
                self._hold(program)
        tree = Tree(self.rules, self._under, self.apart)
        tree.grow(self.rules.root, (), self.rules.array.first, 1)
        return tree


class Tree:
    """The program's communicators and workers; those of workers are written to their ends."""

    def __init__(
        self, rules: Rules, under: Mapping[Mesh, tuple[WorkerProgram, ...]], apart: bool
    ) -> None:
        self._rules = rules
        self._under = under
        self._apart = apart
        self._tasks = {s: s.template() for s in under[rules.root]}
        self.communicators: list[Communicator] = []
        self.workers: list[Worker] = []
        self.programs: list[WorkerProgram] = []
        """Each worker's."""
        self.hbms: list[float] = []

    def grow(self, part: Mesh, above: tuple[int, ...], first: int, copies: int) -> None:
        """Add a part below some communicators; ``first`` is the number of its first device."""
        if part.halves or part.types:
            above = (*above, len(self.communicators))
            self.communicators.append(Communicator(part.level, copies))
        for i, half in enumerate(part.halves if self._apart else part.distinct()):
            offset = part.halves[0].group.size if i else 0
            self.grow(half, above, first + offset, 1 if self._apart else half.copies.count)
        for program in () if part.halves else self._under[part]:
            self.workers.append(self._worker(program, above, first))
            self.programs.append(program)

    def _worker(self, program: WorkerProgram, above: tuple[int, ...], first: int) -> Worker:
        memory = self._rules.hbm_bytes_per_s(program.device)
        worker = Worker(
            program.device,
            self._tasks[program],
            above,
            1 if self._apart else program.copies,
            first if self._apart else program.first,
            self._rules.unit,
            program.device.chips if self._apart else 1,
            program.device.cores_per_chip if self._apart else 1,
            None if memory is None else len(self.hbms),
            program.held_bytes,
            program.weight_bytes,
            program.gradient_bytes,
            units=program.units,
            contention=program.device.roofline.contention,
        )
        self.hbms.extend([] if memory is None else [memory])
        return worker
