"""What a class of workers does, as it is written: its lines, and which earlier ones each needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hardware import Device
from simulator.engine.operations import Operation, Task
from simulator.lowering.placement import Shards

Key = tuple[Any, ...]
"""What an operation makes: ("features", v), ("moved", phase, p, c, edge), and so on."""


@dataclass(slots=True)
class Script:
    """The template of a class of devices that hold the same, while it is written.

    There are ``copies`` of them, the first is number ``first``. ``made`` says
    which lines made what last. ``in_order`` lines wait for the one before them
    and nothing else.
    """

    device: Device
    shards: Shards
    copies: int
    first: int
    in_order: bool
    tasks: list[Task] = field(default_factory=list)
    made: dict[Key, tuple[int, ...]] = field(default_factory=dict)

    def holds(self, nodes: Sequence[int]) -> bool:
        """Whether the class has something of any of these nodes (of none: always)."""
        return not nodes or any(not self.shards[node].empty for node in nodes)

    def add(
        self, operation: Operation, after: Sequence[Key], makes: Sequence[Key], parties: int = 0
    ) -> None:
        """Append an operation that waits for what makes ``after``."""
        place = len(self.tasks)
        if self.in_order:
            self.tasks.append(Task(operation, (place - 1,) if place else (), parties))
            return
        self.tasks.append(Task(operation, self.makers(after), parties))
        for key in makes:
            self.made[key] = (place,)

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
