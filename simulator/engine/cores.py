"""Units of the machine: a board's cores, a chip's HBM, a split's link."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import simpy

from simulator.engine.operations import Operation
from simulator.engine.timeline import Columns


class Span(simpy.Event):
    """One operation's time on a unit: once opened, it fires when the operation ends.

    A timeout that begins later than it is made: what will wait for its end,
    the unit's own processes first, can do so before it has begun.
    """

    start: int
    next: Span

    def open(self, operation: Operation) -> None:
        """Begin now; the event's value is the operation."""
        self.start = int(self.env.now)
        self._ok = True
        self._value = operation
        self.env.schedule(self, delay=operation.duration_ps)


class Unit:
    """Resources that run the same operations together, one at a time, in order.

    A SimPy process serves each resource and writes its records. An operation
    is one event, whose end wakes all of them.
    """

    __slots__ = ("_env", "_free", "_last", "_log", "resources")

    def __init__(self, env: simpy.Environment, resources: Sequence[int], log: Columns) -> None:
        self._env = env
        self._log = log
        self.resources = resources
        self._free = self._last = Span(env)
        for resource in resources:
            env.process(self._serve(resource, self._free))

    def submit(self, operation: Operation) -> simpy.Event:
        """Run an operation after those submitted before; the event fires at its end."""
        last, span = self._last, self._take()
        if last is span or last.processed:
            span.open(operation)
        else:
            last.callbacks.append(lambda _: span.open(operation))
        return span

    def _take(self) -> Span:
        """The next operation's span, for which the unit's processes wait or will wait."""
        span = self._last = self._free
        self._free = span.next = Span(self._env)
        return span

    def _serve(self, resource: int, span: Span) -> Generator[simpy.Event, Any, None]:
        env = self._env
        log_resource, log_operation, log_start, log_end = (c.append for c in self._log)
        while True:
            operation = yield span
            log_resource(resource)
            log_operation(operation.index)
            log_start(span.start)
            log_end(env.now)  # type: ignore[arg-type]  # an integer: every duration is one
            span = span.next


class Link(Unit):
    """A split's link: an exchange starts when every accelerator of both sides has joined."""

    __slots__ = ("_arrived", "_operation", "members")

    def __init__(
        self, env: simpy.Environment, resource: int, log: Columns, members: Sequence[int]
    ) -> None:
        super().__init__(env, (resource,), log)
        self.members = members
        self._operation: Operation | None = None
        self._arrived = 0

    def join(self, operation: Operation) -> simpy.Event:
        """One accelerator is ready for an exchange; the event is the same for all of them."""
        if self._arrived == 0:
            self._operation = operation
            self._take()
        elif self._operation is not operation:
            return self._env.event()  # never fires: the run ends as a deadlock and says so
        self._arrived += 1
        if self._arrived == len(self.members):
            self._arrived = 0
            self._last.open(operation)
        return self._last
