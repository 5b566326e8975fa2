"""A training step as a program: who does what, in which order, and who waits for whom.

There is one way to write it. Rules say how the work is divided, what
computing it takes, and which exchanges it needs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from planners.order import Item, Kind, Phase
from planners.partition import Shard
from simulator.engine.occupancy import DeviceMemory
from simulator.engine.operations import Operation, Program, Site, Worker
from simulator.lowering.blocks import Alike
from simulator.lowering.dataflow import MADE, Dataflow
from simulator.lowering.placement import Part, parts
from simulator.lowering.rules import Exchange, Rules
from simulator.lowering.so_far import SoFar
from simulator.lowering.tasks import Key, Script
from simulator.lowering.unit_order import compute_on_units, order_by_units
from simulator.lowering.written import Kept, Made, Written, devices_of, followed

STEPS = Kept()
"""Those of the process that were written last."""
FOLLOWED = 16
"""After so many items it is asked whether a step takes long enough already not to be written on."""


def training_step(rules: Rules) -> Program:
    """The program of one training step by these rules.

    Folded, a worker stands for all devices that do the same, and a site for
    all splits; without it every device is a worker, and every split a site.
    What differs in speeds alone from a step written lately is not written again.
    """
    program = step_below(rules, math.inf)
    if program is None:
        raise AssertionError
    return program


def step_below(rules: Rules, enough_s: float, *, memory: bool = True) -> Program | None:
    """The same; None as soon as what is written of it surely takes longer than ``enough_s``.

    If nobody asks for its ``memory``, without that.
    """
    alike = rules.apart_from_speeds
    key = None if alike is None else (alike, memory)
    if key is not None and (before := STEPS.get(key)) is not None:
        return before.again(rules)
    writer, so_far = Writer(rules, memory=memory), SoFar(rules)
    held = step_memory(rules) if memory else ()
    for number, item in enumerate(rules.items, 1):
        writer.write(item)
        asked = enough_s < math.inf and (number % FOLLOWED == 0 or number == len(rules.items))
        if asked and so_far.follow(writer.scripts) > enough_s:
            return None
    written = writer.written(held)
    if key is not None:
        STEPS.put(key, written.without_wires())
    return written.program


def step_memory(rules: Rules) -> tuple[DeviceMemory, ...]:
    """How full each device's HBM gets: from who holds what, and nothing else of the step.

    Raises OutOfMemoryError where it must fit.
    """
    return rules.memory(
        [
            (part.group.kinds[0][0], alike.shards, updated, alike.cores * part.copies.count)
            for part in parts(rules.root)
            if not part.halves
            for updated in [rules.updated(part)]
            for alike in part.classes(folded=rules.shared)
        ]
    )


class Writer:
    """The scripts of all classes of devices, as far as they are written.

    Devices that share a script although each is a worker are set ``apart``.
    """

    def __init__(self, rules: Rules, *, memory: bool = True) -> None:
        self.rules = rules
        self._memory = memory
        self.apart = rules.shared and not rules.folded
        self.flow = Dataflow(rules.graph, rules.plan.updates)
        self._under: dict[int, tuple[Script, ...]] = {}
        self._products: dict[Operation, Made] = {}
        self._behind: Key = (MADE[Phase.FORWARD], len(rules.graph) - 1)
        """What lets units begin to compute again, who could as soon as forward is over."""
        self._exchanges: dict[Operation, Exchange] = {}
        self.scripts = self._open(rules.root)

    def _open(self, part: Part) -> tuple[Script, ...]:
        """A script for every class of devices; ``_under`` has those of each part."""
        if part.halves:
            found = tuple(s for half in part.distinct() for s in self._open(half))
        else:
            classes, updated = part.classes(folded=self.rules.shared), self.rules.updated(part)
            found = tuple(self._script(part, alike, updated) for alike in classes)
        self._under[id(part)] = found
        return found

    def _script(self, part: Part, alike: Alike, updated: Sequence[float]) -> Script:
        device = part.group.kinds[0][0]
        use = self.rules.memory_use(device, alike.shards, updated) if self._memory else None
        return Script(
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
            if own != leads and item.phase.ahead:
                sources = [self.flow.moved(replace(item, consumer=leads))]
            for script in self.scripts:
                script.hand_on(sources, makes)
        if own != leads:
            return
        if self.rules.overlap and item.phase is Phase.BACKWARD:
            after = [*after, *((MADE[Phase.BACKWARD], v) for v in siblings if v != own)]
        for exchange in self.rules.exchanges(item):
            part = exchange.part
            takers: Sequence[Script] = self._under[id(part)]
            if exchange.nodes:
                takers = [script for script in takers if script.holds(exchange.nodes)]
            parties = part.group.size if self.apart else len(takers)
            operation = self.rules.carry(exchange)
            self._exchanges[operation] = exchange
            for script in takers:
                script.exchange(operation, after, makes, parties)

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
        if phase is Phase.BACKWARD:
            self._behind = (MADE[phase], v)
        made: dict[tuple[int, Shard, float], Sequence[Operation]] = {}
        for script in self.scripts:
            updated = script.updated[v] if phase is Phase.UPDATE else 1.0
            key = (id(script.device), script.shards[v], updated)
            if key not in made:
                of = (v, phase, script.shards[v], script.device, updated)
                made[key] = self.rules.operations(*of)
                self._products |= dict.fromkeys(made[key], of)
            if script.units:
                waits = [*after, self._behind] if phase is Phase.RECOMPUTE else after
                joined = bool(self.rules.graph[v].operand)
                compute_on_units(script, item, made[key], waits, makes, joined=joined)
                continue
            for operation in made[key]:
                script.compute(v, operation, after, makes)
            if not made[key] and self.rules.overlap and not script.idle:
                script.hand_on(after, makes)

    def tree(self) -> Tree:
        """The workers and their splits, from the top down, as they are written so far."""
        order_by_units(self.scripts, self.rules.choices)
        tree = Tree(self.rules, self._under, self.apart)
        tree.grow(self.rules.root, (), self.rules.array.first, 1)
        return tree

    def written(self, memory: tuple[DeviceMemory, ...]) -> Written:
        """The whole step."""
        tree = self.tree()
        program = Program(
            tuple(tree.workers),
            tuple(tree.sites),
            self.rules.wires,
            followed(self.rules, self._exchanges),
            tuple(tree.hbms),
            memory=memory,
        )
        return Written(program, devices_of(self.rules), self._products, self._exchanges)


class Tree:
    """The program's sites and workers; its scripts are written to their ends."""

    def __init__(self, rules: Rules, under: Mapping[int, tuple[Script, ...]], apart: bool) -> None:
        self._rules = rules
        self._under = under
        self._apart = apart
        self._tasks = {id(s): s.template() for s in under[id(rules.root)]}
        self.sites: list[Site] = []
        self.workers: list[Worker] = []
        self.scripts: list[Script] = []
        """Each worker's."""
        self.hbms: list[float] = []

    def grow(self, part: Part, above: tuple[int, ...], first: int, copies: int) -> None:
        """Add a part below some sites; ``first`` is the number of its first device."""
        if part.halves or part.types:
            above = (*above, len(self.sites))
            self.sites.append(Site(part.level, copies))
        for i, half in enumerate(part.halves if self._apart else part.distinct()):
            offset = part.halves[0].group.size if i else 0
            self.grow(half, above, first + offset, 1 if self._apart else half.copies.count)
        for script in () if part.halves else self._under[id(part)]:
            self.workers.append(self._worker(script, above, first))
            self.scripts.append(script)

    def _worker(self, script: Script, above: tuple[int, ...], first: int) -> Worker:
        memory = self._rules.hbm_bytes_per_s(script.device)
        worker = Worker(
            script.device,
            self._tasks[id(script)],
            above,
            1 if self._apart else script.copies,
            first if self._apart else script.first,
            self._rules.unit,
            script.device.chips if self._apart else 1,
            script.device.cores_per_chip if self._apart else 1,
            None if memory is None else len(self.hbms),
            script.held_bytes,
            script.weight_bytes,
            script.gradient_bytes,
            units=script.units,
        )
        self.hbms.extend([] if memory is None else [memory])
        return worker
