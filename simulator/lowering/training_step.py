"""A training step as a program: who does what, in which order, and who waits for whom.

There is one way to write it. Rules say how the work is divided, what
computing it takes, and which exchanges it needs.
"""

from __future__ import annotations

from collections.abc import Sequence

from planners.partition import Shard
from planners.steps import Kind, Phase, Step
from simulator.engine.operations import Operation, Program, Site, Worker
from simulator.lowering.dataflow import Dataflow
from simulator.lowering.placement import Cores, Part, Shards
from simulator.lowering.rules import Rules
from simulator.lowering.tasks import Key, Script


def training_step(rules: Rules) -> Program:
    """The program of one training step by these rules.

    Folded, a worker stands for all devices that do the same, and a site for
    all splits; without it every device is a worker, and every split a site.
    """
    writer = _Writer(rules)
    for step in rules.order():
        writer.write(step)
    return writer.program()


class _Writer:
    """The scripts of all classes of devices, as far as they are written.

    Devices that share a script although each is a worker are set ``apart``.
    """

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._apart = rules.shared and not rules.folded
        self._flow = Dataflow(rules.graph)
        self._under: dict[int, tuple[Script, ...]] = {}
        self._scripts = self._open(rules.root)
        self._memory = rules.memory([(s.device, s.shards, s.copies) for s in self._scripts])

    def _open(self, part: Part) -> tuple[Script, ...]:
        """A script for every class of devices; ``_under`` has those of each part."""
        if part.halves:
            found = tuple(s for half in part.distinct() for s in self._open(half))
        else:
            classes = part.classes(folded=self._rules.shared)
            found = tuple(self._script(part, shards, members) for shards, members in classes)
        self._under[id(part)] = found
        return found

    def _script(self, part: Part, shards: Shards, members: Cores) -> Script:
        device = part.group.kinds[0][0]
        use = self._rules.memory_use(device, shards)
        return Script(
            device,
            shards,
            len(members) * len(part.firsts),
            int(part.firsts[0] + members[0]),
            in_order=not self._rules.overlap,
            held=use.by_product() if use else {},
            held_bytes=use.held_bytes if use else 0.0,
        )

    def write(self, step: Step) -> None:
        """Append what a step asks of everybody."""
        after, makes = self._flow.of(step) if self._rules.overlap else ([], [])
        if step.kind is Kind.COMPUTE:
            self._compute(step, after, makes)
            return
        if self._rules.overlap and step.phase is not Phase.UPDATE and step.kind is Kind.BOUNDARY:
            for script in self._scripts:
                script.hand_on([self._flow.source(step)], makes)
        for part, operation, nodes in self._rules.exchanges(step):
            takers = [s for s in self._under[id(part)] if s.holds(nodes)]
            parties = part.group.size if self._apart else len(takers)
            for script in takers:
                script.exchange(operation, after, makes, parties)

    def _compute(self, step: Step, after: Sequence[Key], makes: Sequence[Key]) -> None:
        v, phase = step.node, step.phase
        made: dict[tuple[int, Shard], Operation | None] = {}
        for script in self._scripts:
            key = (id(script.device), script.shards[v])
            if key not in made:
                made[key] = self._rules.product(v, phase, script.shards[v], script.device)
            operation = made[key]
            if operation is not None:
                script.compute(v, operation, after, makes)
            elif self._rules.overlap:
                script.hand_on(after, makes)

    def program(self) -> Program:
        """The workers and their splits, from the top down."""
        sites: list[Site] = []
        workers: list[Worker] = []
        hbms: list[float] = []
        templates = {id(script): tuple(script.tasks) for script in self._scripts}

        def visit(part: Part, above: tuple[int, ...], first: int, copies: int) -> None:
            if part.halves or part.types:
                above = (*above, len(sites))
                sites.append(Site(part.level, copies))
            for i, half in enumerate(part.halves if self._apart else part.distinct()):
                offset = part.halves[0].group.size if i else 0
                visit(half, above, first + offset, 1 if self._apart else len(half.firsts))
            for script in () if part.halves else self._under[id(part)]:
                memory = self._rules.hbm_bytes_per_s(script.device)
                worker = Worker(
                    script.device,
                    templates[id(script)],
                    above,
                    1 if self._apart else script.copies,
                    first if self._apart else script.first,
                    self._rules.unit,
                    script.device.chips if self._apart else 1,
                    script.device.cores_per_chip if self._apart else 1,
                    None if memory is None else len(hbms),
                    script.held_bytes,
                )
                hbms.extend([] if memory is None else [memory])
                workers.append(worker)

        visit(self._rules.root, (), 0, 1)
        wires = self._rules.wires
        return Program(tuple(workers), tuple(sites), wires, tuple(hbms), memory=self._memory)
