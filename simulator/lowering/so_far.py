"""When a step can be over at the earliest, by the lines of it that are written so far.

A core computes one product after the other, each behind what it waits for, and an exchange
takes as long at least as if nobody else used its links. Products of 2 and 3, and
between them an exchange of 4 that the second waits for, end at 9, whatever comes behind. What
others do meanwhile only adds to that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from simulator.collectives.offers import byte_s
from simulator.engine.operations import Operation
from simulator.engine.picoseconds import PICOSECONDS
from simulator.lowering.rules import Rules
from simulator.lowering.tasks import Script


def alone_s(rules: Rules, operation: Operation) -> float:
    """An exchange when nobody else uses its links."""
    if rules.wires is None or not operation.jobs:
        return operation.duration_ps / PICOSECONDS
    return math.fsum(
        byte_s(job.load, rules.wires) * job.flow_bytes + job.latency_s for job in operation.jobs
    )


class SoFar:
    """The earliest end of a step in the making; of cores with units nothing is known."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._lasts: dict[Operation, float] = {}
        self._ends: dict[int, list[float]] = {}
        """Of every line of a script."""
        self._core: dict[int, float] = {}
        """When a script's last product is over."""
        self.seconds = 0.0

    def follow(self, scripts: Iterable[Script]) -> float:
        """When all lines are over at the earliest, those included that are new."""
        for script in scripts:
            if not script.units:
                self._follow(script)
        return self.seconds

    def _follow(self, script: Script) -> None:
        ends = self._ends.setdefault(id(script), [])
        for task in script.tasks[len(ends) :]:
            operation = task.operation
            if operation not in self._lasts:
                self._lasts[operation] = alone_s(self._rules, operation)
            begins = max([ends[line] for line in task.needs], default=0.0)
            if not task.parties:
                begins = max(begins, self._core.get(id(script), 0.0))
            end = begins + self._lasts[operation]
            if not task.parties:
                self._core[id(script)] = end
            self.seconds = max(self.seconds, end)
            ends.append(end)
