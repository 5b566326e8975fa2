"""When a step can be over at the earliest, by the lines of it that are written so far.

A core computes one product after the other, each behind what it waits for, and an exchange
takes as long at least as if nobody else used its links. A product of 2 and an
exchange of 4, and behind them one of 3 that waits for both, end at 9; if the core has
products of 5 to compute besides, of which nothing is written yet, at 14. What others do meanwhile
only adds to that.
"""

from __future__ import annotations

from collections.abc import Iterable

from simulator.engine.operations import Operation, Program
from simulator.engine.picoseconds import PICOSECONDS
from simulator.lowering.step.rules import Rules
from simulator.lowering.step.script import Script
from simulator.lowering.step.training_step import Writer, alone_s, step_memory

FOLLOWED = 16
"""After so many items it is asked whether a step takes long enough already not to be written on."""


def step_below(rules: Rules, enough_s: float, *, memory: bool = True) -> Program | None:
    """The program of a step; None as soon as it surely takes longer than ``enough_s``.

    If nobody asks for its ``memory``, without that.
    """
    writer, so_far = Writer(rules, memory=memory), SoFar(rules)
    held = step_memory(rules) if memory else ()
    for number, item in enumerate(rules.items, 1):
        writer.write(item)
        asked = number % FOLLOWED == 0 or number == len(rules.items)
        if asked and so_far.follow(writer.scripts) > enough_s:
            return None
    return writer.program(held)


class SoFar:
    """The earliest end of a step in the making; of cores with units nothing is known."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._phases = rules.phases
        self._lasts: dict[Operation, float] = {}
        self._ends: dict[int, list[float]] = {}
        """Of every line of a script."""
        self._core: dict[int, float] = {}
        """When a script's last product is over."""
        self._rest: dict[int, float] = {}
        """What its products take that are not written yet."""
        self.seconds = 0.0

    def follow(self, scripts: Iterable[Script]) -> float:
        """When all lines are over at the earliest, those included that are new."""
        for script in scripts:
            if not script.units:
                if id(script) not in self._ends:
                    self._ends[id(script)], self._core[id(script)] = [], 0.0
                    self._rest[id(script)] = self._products_s(script)
                self._follow(script)
        return self.seconds

    def _products_s(self, script: Script) -> float:
        pairs = zip(script.shards, script.updated, strict=True)
        return (
            sum(
                self._rules.node_ps(v, shard, script.device, updated)
                for v, (shard, updated) in enumerate(pairs)
            )
            / PICOSECONDS
        )

    def _follow(self, script: Script) -> None:
        one, ends = id(script), self._ends[id(script)]
        for task in script.tasks[len(ends) :]:
            operation = task.operation
            if operation not in self._lasts:
                self._lasts[operation] = alone_s(self._rules, operation)
            lasts = self._lasts[operation]
            end = max([ends[line] for line in task.needs], default=0.0) + lasts
            if not task.parties:
                end = self._core[one] = max(end, self._core[one] + lasts)
                self._rest[one] -= lasts if operation.phase in self._phases else 0.0
            ends.append(end)
            self.seconds = max(self.seconds, end, self._core[one] + self._rest[one])
