"""Units of the machine: a board's cores, a chip's HBM, a split's link."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Sequence
from typing import Any

import simpy

from simulator.program import Operation
from simulator.timeline import Columns


class Unit:
    """Resources that run the same operations together, one at a time, in order.

    A SimPy process serves each resource. One gate wakes them all: an
    operation costs one event for the gate, one timeout for each resource and
    one event for its end.
    """

    __slots__ = ("_busy", "_env", "_gate", "_left", "_log", "_queue", "resources")

    def __init__(self, env: simpy.Environment, resources: Sequence[int], log: Columns) -> None:
        self._env = env
        self._log = log
        self.resources = resources
        self._queue: deque[tuple[Operation, simpy.Event]] = deque()
        self._gate = env.event()
        self._busy: simpy.Event | None = None
        self._left = 0
        for resource in resources:
            env.process(self._serve(resource))

    def submit(self, operation: Operation, done: simpy.Event | None = None) -> simpy.Event:
        """Queue an operation; the event (``done``, or a new one) fires when all have ended it."""
        event = done or self._env.event()
        self._queue.append((operation, event))
        if self._busy is None:
            self._next()
        return event

    def _next(self) -> None:
        operation, self._busy = self._queue.popleft()
        self._left = len(self.resources)
        gate, self._gate = self._gate, self._env.event()
        gate.succeed(operation)

    def _serve(self, resource: int) -> Generator[simpy.Event, Any, None]:
        env, timeout = self._env, self._env.timeout
        log_resource, log_operation, log_start, log_end = (c.append for c in self._log)
        while True:
            operation = yield self._gate
            start = env.now
            yield timeout(operation.duration_ps)
            log_resource(resource)
            log_operation(operation.index)
            log_start(start)  # type: ignore[arg-type]  # integers: every duration is one
            log_end(env.now)  # type: ignore[arg-type]
            self._left -= 1
            if not self._left:
                self._end()

    def _end(self) -> None:
        done, self._busy = self._busy, None
        if done is not None:
            done.succeed()
        if self._queue:
            self._next()


class Link(Unit):
    """A split's link: an exchange starts when every accelerator of both sides has joined."""

    __slots__ = ("_arrived", "_done", "_operation", "members")

    def __init__(
        self, env: simpy.Environment, resource: int, log: Columns, members: Sequence[int]
    ) -> None:
        super().__init__(env, (resource,), log)
        self.members = members
        self._operation: Operation | None = None
        self._done = env.event()
        self._arrived = 0

    def join(self, operation: Operation) -> simpy.Event:
        """One accelerator is ready for an exchange; the event is the same for all of them."""
        if self._operation is None:
            self._operation = operation
            self._done = self._env.event()
            self._arrived = 0
        elif self._operation is not operation:
            return self._env.event()  # never fires: the run ends as a deadlock and says so
        done = self._done
        self._arrived += 1
        if self._arrived == len(self.members):
            self._operation = None
            self.submit(operation, done)
        return done
