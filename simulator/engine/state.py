"""The state of a machine between two instants: what decides all that happens afterwards."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import simpy

from simulator.engine.cores import Done
from simulator.engine.machine import Machine
from simulator.engine.region import Appointment, Ending, Moved


def state(machine: Machine, turn: int) -> Hashable:
    """Equal where everything will go on alike, times counted from now and turns from ``turn``.

    To be asked for at the end of an instant. It has what is under way, in the order in
    which it ends; who waits for others at a meeting; and how far the links are with
    what they carry. How far workers are is for their control to say, and then nothing
    is left to know: what they began is over, but for this and for what waits for it.
    """
    now = int(machine.env.now)
    queue = sorted(machine.env._queue, key=_when)  # SimPy has no other face for it
    coming = [
        (time - now, priority, known)
        for time, priority, _, event in queue
        if (known := _known(event, turn, now)) is not None
    ]
    waiting = [meeting.known(turn, now) for meeting in machine.gathering]
    return tuple(coming), tuple(waiting), machine.interconnect.known(turn, now)


def _when(entry: tuple[Any, ...]) -> tuple[Any, ...]:
    """By time, then as the queue was filled."""
    return entry[:3]


def _known(event: simpy.Event, turn: int, now_ps: int) -> Hashable:
    """What is known of an event; of a memory's nothing but the time: its operation decides it."""
    if isinstance(event, (Done, Moved, Ending, Appointment)):
        return event.known(turn, now_ps)
    return type(event).__name__
