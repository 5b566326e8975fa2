"""What a class of cores does: its operations, and which earlier ones each waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hardware import Device
from simulator.engine.operations import Operation
from simulator.lowering.placement import Shards

Key = tuple[Any, ...]
"""What an operation makes: ("features", v), ("moved", phase, p, c, edge), and so on."""


@dataclass(slots=True)
class Script:
    """What one class of ``cores`` does, of which ``first`` is the first.

    ``made`` says which operations made what last.
    """

    device: Device
    shards: Shards
    cores: int
    first: int
    operations: list[Operation] = field(default_factory=list)
    needs: list[tuple[int, ...]] = field(default_factory=list)
    made: dict[Key, tuple[int, ...]] = field(default_factory=dict)

    def add(self, operation: Operation, after: Sequence[Key], makes: Sequence[Key]) -> None:
        """Append an operation that waits for what makes ``after``."""
        self.needs.append(self.makers(after))
        place = (len(self.operations),)
        for key in makes:
            self.made[key] = place
        self.operations.append(operation)

    def hand_on(self, after: Sequence[Key], makes: Sequence[Key]) -> None:
        """Where nothing has to be done, ``makes`` is there when ``after`` is."""
        found = self.makers(after)
        for key in makes:
            self.made[key] = found

    def makers(self, keys: Sequence[Key]) -> tuple[int, ...]:
        """The operations that made these, where this core took part in it."""
        made = self.made
        if len(keys) == 1:
            return made.get(keys[0], ())
        return tuple(sorted({place for key in keys for place in made.get(key, ())}))
