"""A machine's state between two instants: what is the same, and what is not."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from planners.order import Kind, Phase
from simulator import Machine, Operation, Program, Site, Worker
from simulator.engine.jobs import Job, Load
from simulator.engine.links import EveryLink
from simulator.engine.machine import Process
from simulator.engine.state import state
from tests.simulator.lowering.pipelines_by_hand import CORE

LONG, SHORT = (
    Operation(
        Kind.SEND,
        Phase.FORWARD,
        name,
        -2,
        jobs=(Job(name, Load(np.array([0]), np.ones(1)), size, 0.0),),
    )
    for name, size in (("long", 500.0), ("short", 20.0))
)
WORK = Operation(Kind.COMPUTE, Phase.FORWARD, "work", -1, 40)
TOGETHER = Operation(Kind.SUMS, Phase.GRADIENT, "together", 0, 7)
LINKS = EveryLink(np.array([1e12, 1e12]))
"""Of all machines here: what it carries is known by what it is."""


def after(do: Sequence[tuple[int, str]], until: int, turn: int = 0) -> Hashable:
    """The state when so many picoseconds are over, in which things were begun at their times.

    Two cores and two links of a byte a picosecond; micro-batch ``turn`` is worked on.
    """
    workers = tuple(Worker(CORE, unit="core", first=i) for i in range(2))
    machine = Machine(Program(workers, (Site(0, 1, "link"),), links=LINKS))

    def begins(at: int, what: str) -> Process:
        yield machine.env.timeout(at)
        if what == "work":
            machine.compute(0, WORK, turn)
        elif what == "works and comes":
            done = machine.compute(1, WORK, turn)
            machine.meet(1, TOGETHER, 2, turn, [done], site=0)
        elif what == "comes":
            machine.meet(1, TOGETHER, 2, turn, site=0)
        else:
            operation = LONG if what == "long" else SHORT
            machine.deliver(0, operation, (operation, turn), turn)

    for at, what in do:
        machine.process(begins(at, what))
    end = machine.env.timeout(until)
    while end.callbacks is not None:
        machine.env.step()
    return state(machine, turn)


def test_time_and_turns_count_from_now() -> None:
    assert after([(0, "work")], 10) == after([(30, "work")], 40)
    assert after([(0, "work")], 10) == after([(30, "work")], 40, turn=9)
    assert after([(0, "work")], 10) != after([(0, "work")], 11)
    assert after([(0, "work")], 10) != after([], 10)


def test_what_is_over_is_no_state() -> None:
    assert after([(0, "work")], 50) == after([], 50)
    assert after([(0, "short")], 50) == after([], 50)


def test_bytes_that_are_left_are_state() -> None:
    """The short send ends as soon in both, and is all that is waited for."""
    one, other = ([(at, "long"), (50, "short")] for at in (0, 10))
    assert after(one, 60) != after(other, 60)
    assert after(one, 60) == after([(at + 7, what) for at, what in one], 67)


def test_who_came_early_is_state_and_when() -> None:
    came = after([(0, "work"), (20, "comes")], 90)
    assert came != after([(0, "work")], 90)
    assert came == after([(5, "work"), (25, "comes")], 95)
    early, late = (after([(at, "works and comes")], 90) for at in (0, 10))
    assert early != late, "what it came after is over in both, but not as long"
    assert early == after([(10, "works and comes")], 100)
