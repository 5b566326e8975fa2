"""The cores of a worker: one operation at a time, in the order in which they are given."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import simpy

from simulator.engine.blocks import Block
from simulator.engine.records import Log
from simulator.engine.rows import NO_ROW
from simulator.engine.stations import Station


class Done(simpy.Event):
    """The end of an operation: once it fires, ``number`` is its own in the log.

    It ends at ``end_ps``.
    """

    end_ps: int
    number: int


def latest(events: Sequence[Done]) -> Done | None:
    """What ended last of these, the first named among equals: what one had to wait for."""
    found: Done | None = None
    for event in events:
        if found is None or event.end_ps > found.end_ps:
            found = event
    return found


def pending(events: Sequence[Done]) -> list[Done]:
    """Those that have not fired yet."""
    return [event for event in events if event.callbacks is not None]


def once(events: Sequence[Done], then: Callable[[], object]) -> None:
    """Do something when all events have fired, none of which has yet."""
    missing = len(events)

    def fired(_: simpy.Event) -> None:
        nonlocal missing
        missing -= 1
        if not missing:
            then()

    for event in events:
        event.callbacks.append(fired)


def at_once(event: simpy.Event) -> None:
    """Tell who waits for an event that it is over, without a place in the queue."""
    waiting, event.callbacks = event.callbacks, None  # type: ignore[assignment]  # as SimPy does
    for callback in waiting:
        callback(event)


def number_of(done: Done | None) -> int:
    """Its number in the log, or NO_ROW."""
    return NO_ROW if done is None else done.number


class Span(Done):
    """One operation's time on a worker's cores.

    A timeout that begins later than it is made: what will wait for its end,
    the cores' own processes first, can do so before it has begun.
    """

    operation: int
    turn: int
    start_ps: int
    cause: Done | None
    """Forgotten once it is written down, or each would keep all that was before it."""
    next: Span
    block: Block | None = None
    first: int
    core: int
    """The number of its first core."""


class Cores:
    """Cores that run the same operations together.

    A SimPy process serves each of them and writes its records. An operation
    is one event, whose end wakes all of them.
    """

    __slots__ = ("_env", "_free", "_log", "_memory", "last", "resources")

    def __init__(
        self,
        env: simpy.Environment,
        station: Station,
        log: Log,
        resources: Sequence[int],
    ) -> None:
        self._env = env
        self._memory = next(iter(station.memories), NO_ROW)
        self._log = log
        self.resources = resources
        self.last: Span | None = None
        self._free = Span(env)
        for resource in resources:
            env.process(self._serve(resource, self._free))

    def take(self) -> Span:
        """The next operation's span, for which the cores' processes wait or will wait."""
        span = self.last = self._free
        span.core = self.resources[0]
        self._free = span.next = Span(self._env)
        return span

    def _serve(self, resource: int, span: Span) -> Generator[simpy.Event, Any, None]:
        log, first = self._log, resource == self.resources[0]
        resources, done = log.resource.append, log.done.append
        while True:
            yield span
            if span.block is not None:
                if first:
                    cause = number_of(span.cause)
                    on = resource, self._memory
                    span.first = log.block(span.block, on, span.turn, span.start_ps, cause)
                    span.number = span.first + span.block.count - 1
                    span.cause = None
                else:
                    log.rows(resource, span.first, span.block.count)
                span = span.next
                continue
            if first:
                span.number = log.over(
                    span.operation, span.turn, span.start_ps, span.end_ps, number_of(span.cause)
                )
                span.cause = None
            resources(resource)
            done(span.number)
            span = span.next
