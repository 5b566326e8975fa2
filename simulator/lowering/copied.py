"""A stage that does what another one does, for other layers on other cores: copied line by line.

Most stages of a large model are alike. The first of them is written by the rules of a step;
the others have its lines, with the names of their own layers, on their own links.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from copy import copy
from dataclasses import replace

from simulator.engine.operations import Operation, Task, Worker
from simulator.lowering.rules import Rules
from simulator.lowering.stage_writer import StageWriter
from simulator.lowering.training_step import Tree


class CopyingWriter(StageWriter):
    """Writes what ``model`` writes, by ``rules`` that are its own elsewhere.

    Stages that are alike may be handed unlike things: one gathers the parts that it is sent,
    another, next to its sender, is sent all of it. Such a one is written by rules of its own,
    which are made ``anew``.
    """

    def __init__(self, model: StageWriter, rules: Rules, anew: Callable[[], Rules]) -> None:
        self.__dict__.update(model.__dict__)
        self.rules = rules
        self.entering, self.leaving, self.sums, self.copies = [], [], [], []
        self._model = model
        self._anew = anew
        self.copied = True
        pairs = zip(model.rules.graph, rules.graph, strict=True)
        self._names = {theirs.name: mine.name for theirs, mine in pairs}
        self._mine: dict[Operation, tuple[Operation, int | None]] = {}
        """This stage's operation for each of the model's, and its site if that says one."""

    def write_all(self) -> None:
        """Nothing but what the stage is handed, where the rest is a copy."""
        handed = self.entering, self.leaving, self.sums, self.copies
        self.copied = _shape(self) == _shape(self._model)
        if self.copied:
            self._mine.update(zip(_handed(self._model), _places(self), strict=True))
            return
        super().__init__(self._anew())
        self.entering, self.leaving, self.sums, self.copies = handed
        super().write_all()

    def tree(self) -> Tree:
        """The model's workers and splits; their operations are this stage's."""
        if not self.copied:
            return super().tree()
        found = copy(self._model.whole)
        found.workers = list(map(self._worker, found.workers))
        return found

    def _worker(self, worker: Worker) -> Worker:
        behind = self.rules.array.first - self._model.rules.array.first
        template = tuple(map(self._task, worker.template))
        return replace(worker, template=template, first=worker.first + behind)

    def _task(self, task: Task) -> Task:
        if task.operation not in self._mine:
            self._mine[task.operation] = self._own(task.operation), None
        operation, site = self._mine[task.operation]
        return task._replace(operation=operation, site=None if task.site is None else site)

    def _own(self, operation: Operation) -> Operation:
        """What the stage itself computes, or exchanges."""
        exchange = self._model.exchange_of(operation)
        if exchange is not None:
            return self.rules.carry_here(exchange)
        return replace(operation, layer=self._names[operation.layer])


def _shape(writer: StageWriter) -> Hashable:
    """What a stage is handed, and hands on, whatever the links do for it."""
    ports = [
        [(port.nodes, port.gather is None) for port in some]
        for some in (writer.entering, writer.leaving)
    ]
    sums = [[(one.nodes, one.parties) for one in some] for some in (writer.sums, writer.copies)]
    return repr((ports, sums))


def _places(writer: StageWriter) -> Iterator[tuple[Operation, int | None]]:
    """What goes between a stage and others, and at which sites, in one order."""
    for port in (*writer.entering, *writer.leaving):
        yield port.features
        yield port.errors
        if port.gather:
            yield port.gather, None
    for one in (*writer.sums, *writer.copies):
        yield one.operation, one.site


def _handed(writer: StageWriter) -> Iterator[Operation]:
    return (operation for operation, _ in _places(writer))
