"""The cores of a worker: one operation at a time, in the order in which they are given."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Any

import simpy

from simulator.engine.timeline import NO_ROW, Columns


class Done(simpy.Event):
    """The end of an operation: when it fires, ``row`` is its record, which ends at ``end_ps``."""

    end_ps: int
    row: int


def latest(events: Iterable[Done]) -> Done | None:
    """What ended last of these, the first named among equals: what one had to wait for."""
    return max(events, key=_end_ps, default=None)


def _end_ps(done: Done) -> int:
    return done.end_ps


class Span(Done):
    """One operation's time on a worker's cores.

    A timeout that begins later than it is made: what will wait for its end,
    the cores' own processes first, can do so before it has begun.
    """

    operation: int
    turn: int
    start_ps: int
    cause: Done | None
    next: Span


class Cores:
    """Cores that run the same operations together.

    A SimPy process serves each of them and writes its records. An operation
    is one event, whose end wakes all of them.
    """

    __slots__ = ("_env", "_free", "_log", "last", "resources")

    def __init__(self, env: simpy.Environment, resources: Sequence[int], log: Columns) -> None:
        self._env = env
        self._log = log
        self.resources = resources
        self.last: Span | None = None
        self._free = Span(env)
        for resource in resources:
            env.process(self._serve(resource, self._free))

    def take(self) -> Span:
        """The next operation's span, for which the cores' processes wait or will wait."""
        span = self.last = self._free
        self._free = span.next = Span(self._env)
        return span

    def _serve(self, resource: int, span: Span) -> Generator[simpy.Event, Any, None]:
        resources, operations, turns, starts, ends, causes = (c.append for c in self._log)
        first, rows = resource == self.resources[0], self._log.end
        while True:
            yield span
            if first:
                span.row = len(rows)
            resources(resource)
            operations(span.operation)
            turns(span.turn)
            starts(span.start_ps)
            ends(span.end_ps)
            causes(NO_ROW if span.cause is None else span.cause.row)
            span = span.next
