"""What a class of workers does, as it is written: its lines, and which earlier ones each needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hardware import Device
from planners.order import Phase
from simulator.engine.operations import NOTHING_HELD, Holding, Operation, Part, Task
from simulator.sharding.blocks import Shards

Key = tuple[Any, ...]
"""What an operation makes: ("features", v), ("moved", phase, p, c, edge), and so on."""


@dataclass(slots=True, eq=False)
class WorkerProgram:
    """The template of a class of devices that hold the same, while it is written.

    There are ``copies`` of them, the first is number ``first``; of the weights of each node
    they update the fraction ``updated``. ``made`` says
    which lines made what last. ``in_order`` lines wait for the one before them
    and nothing else but what they receive. Where its cores have ``units`` lines are in the
    order in which those ``start`` them. Before the first ``held_bytes`` are in the
    device's memory; ``held`` has what its products hold (``MemoryUse.by_product``),
    and ``once`` what of that goes on from one micro-batch to the next.
    """

    device: Device
    shards: Shards
    updated: Sequence[float]
    copies: int
    first: int
    in_order: bool
    held: dict[tuple[int, Phase], Holding]
    held_bytes: float
    once: dict[tuple[int, Phase], float] = field(default_factory=dict)
    weight_bytes: float = 0.0
    gradient_bytes: float = 0.0
    units: tuple[str, ...] = ()
    kind: int = 0
    """Its device's number among the kinds of the array."""
    starts: list[int] | None = None
    tasks: list[Task] = field(default_factory=list)
    made: dict[Key, tuple[int, ...]] = field(default_factory=dict)
    parts: list[Part] = field(default_factory=list)
    part: Part = Part.FORWARD
    """What the next lines belong to."""
    _last: tuple[int, ...] = ()
    _received: tuple[int, ...] = ()
    idle: bool = field(init=False)
    """Whether the class has nothing of any node."""

    def __post_init__(self) -> None:
        self.idle = all(shard.empty for shard in self.shards)

    def holds(self, nodes: Sequence[int]) -> bool:
        """Whether the class has something of any of these nodes (of none: always)."""
        return not nodes or any(not self.shards[node].empty for node in nodes)

    def compute(
        self, v: int, operation: Operation, after: Sequence[Key], makes: Sequence[Key]
    ) -> None:
        """Append a product of a node that waits for what makes ``after``."""
        of = (v, Phase(operation.phase))
        held, once = self.held.get(of, NOTHING_HELD), self.once.get(of, 0.0)
        self._add(Task(operation, self._needs(after), held=held, accumulated=once), makes)

    def wait(self, operation: Operation, after: Sequence[Key], makes: Sequence[Key]) -> None:
        """Append what keeps the core from going on, and holds nothing."""
        self._add(Task(operation, self._needs(after)), makes)

    def exchange(
        self,
        operation: Operation,
        after: Sequence[Key],
        makes: Sequence[Key],
        parties: int,
        communicator: int | None = None,
    ) -> None:
        """Append an exchange of so many workers that waits for what makes ``after``."""
        self._add(Task(operation, self._needs(after), parties, communicator=communicator), makes)

    def send(
        self, operation: Operation, after: Sequence[Key], parties: int, communicator: int
    ) -> None:
        """Append what so many workers send together; nothing here waits for it."""
        needs = self.waits_for(after)
        self._append(Task(operation, needs, parties, communicator=communicator))

    def receive(self, operation: Operation, makes: Key) -> None:
        """Append what is received, for those to wait for who need what it makes."""
        place = self._append(Task(operation))
        self.made[makes] = (place,)
        self._received += (place,)

    def waits_for(self, after: Sequence[Key]) -> tuple[int, ...]:
        """The lines that the next one needs, if it waits for what makes ``after``."""
        if not self.in_order:
            return self.makers(after)
        return tuple(sorted((*self._last, *self._received))) if self._received else self._last

    def _needs(self, after: Sequence[Key]) -> tuple[int, ...]:
        needs = self.waits_for(after)
        self._received = () if self.in_order else self._received
        return needs

    def _add(self, task: Task, makes: Sequence[Key]) -> None:
        place = self._append(task)
        self._last = (place,)
        for key in makes:
            self.made[key] = (place,)

    def _append(self, task: Task) -> int:
        self.tasks.append(task)
        self.parts.append(self.part)
        return len(self.tasks) - 1

    def template(self) -> tuple[Task, ...]:
        """Its lines, every exchange right behind the last computation that it waits for.

        A worker comes to its lines in this order, and waits at computations
        alone: so exchanges begin when what they need is there, whatever was
        written between. Cores compute in the order in which that is written.
        """
        if self.in_order:  # each waits for the one before it already
            return tuple(self.tasks)
        order = self.order()
        place = {line: number for number, line in enumerate(order)}
        lines = (self.tasks[line] for line in order)
        return tuple(
            task._replace(needs=tuple(sorted(place[i] for i in task.needs))) for task in lines
        )

    def order(self) -> list[int]:
        """Its lines as the template has them."""
        if self.in_order:
            return list(range(len(self.tasks)))
        if self.starts is not None:
            return sorted(range(len(self.tasks)), key=self.starts.__getitem__)
        computed, ready = -1, list[int]()
        for task in self.tasks:
            goes_on = task.parties or task.receives
            computed += not goes_on
            needed = max((ready[i] for i in task.needs), default=-1)
            ready.append(needed if goes_on else computed)
        return sorted(range(len(ready)), key=ready.__getitem__)

    def by_part(self) -> dict[Part, tuple[int, ...]]:
        """Which lines of the template belong to each part."""
        found: dict[Part, list[int]] = {}
        for number, line in enumerate(self.order()):
            found.setdefault(self.parts[line], []).append(number)
        return {part: tuple(lines) for part, lines in found.items()}

    def hand_on(self, after: Sequence[Key], makes: Sequence[Key]) -> None:
        """Where nothing has to be done, ``makes`` is there when ``after`` is."""
        found = self.makers(after)
        for key in makes:
            self.made[key] = found

    def makers(self, keys: Sequence[Key]) -> tuple[int, ...]:
        """The lines that made these, where this class took part in it."""
        made = self.made
        if len(keys) == 1:
            return made.get(keys[0], ())
        return tuple(sorted({place for key in keys for place in made.get(key, ())}))
