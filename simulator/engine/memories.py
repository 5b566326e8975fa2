"""The HBMs that operations' bytes cross: its one worker's own, or a link that several share."""

from __future__ import annotations

from collections import Counter

import numpy as np
import simpy

from simulator.engine.interconnect import Interconnect
from simulator.engine.jobs import Job, Load
from simulator.engine.operations import Operation, Program
from simulator.engine.picoseconds import whole_ps


class Memories:
    """The memory links of a program, which follow ``first`` others on the interconnect.

    Nobody but its one worker uses an HBM of its own, and that, unless it has several
    units, one operation after the other: when its bytes are through is known as soon as they begin.
    """

    def __init__(
        self, env: simpy.Environment, program: Program, interconnect: Interconnect, first: int
    ) -> None:
        self._env = env
        self._interconnect = interconnect
        self._first = first
        self._bandwidth = program.hbms
        self._own_bytes = [0.0] * len(program.hbms)
        self._jobs: dict[tuple[int, float], Job] = {}
        self._traffic: dict[Operation, Operation] = {}
        users = Counter(worker.hbm for worker in program.workers)
        at_once = {worker.hbm for worker in program.workers if worker.units}
        self._own = [
            users[number] == 1 and number not in at_once and not program.shared_memory
            for number in range(len(program.hbms))
        ]

    def traffic(self, operation: Operation) -> Operation:
        """What a memory does for an operation, as one operation however often."""
        found = self._traffic.get(operation)
        if found is None:
            found = self._traffic[operation] = operation.traffic()
        return found

    def is_own(self, hbm: int | None) -> bool:
        """Whether nobody but one worker uses it; none is nobody's."""
        return hbm is None or self._own[hbm]

    def crossed(self, hbm: int, size_bytes: float) -> None:
        """Count bytes that are known to go through one of a worker's own."""
        self._own_bytes[hbm] += size_bytes

    def cross(self, hbm: int, size_bytes: float) -> tuple[simpy.Event, int | None]:
        """Begin now; the event of the end, and picoseconds until then where that is known."""
        if self._own[hbm]:
            self._own_bytes[hbm] += size_bytes
            through_ps = whole_ps(size_bytes / self._bandwidth[hbm])
            return self._env.timeout(through_ps), through_ps
        job = self._jobs.get((hbm, size_bytes))
        if job is None:
            load = Load(np.array([self._first + hbm]), np.ones(1))
            job = self._jobs[hbm, size_bytes] = Job("hbm", load, size_bytes, 0.0)
        return self._interconnect.submit(job), None

    @property
    def bytes(self) -> tuple[float, ...]:
        """Bytes that have crossed each of them."""
        shared = self._interconnect.link_bytes[self._first :]
        return tuple((shared + self._own_bytes).tolist())
