"""The machine's parts, as whole logs of (who, when)."""

from collections.abc import Generator
from typing import Any

import simpy

from planners.steps import Kind, Phase
from simulator.engine.cores import Link, Unit
from simulator.engine.operations import Operation
from simulator.engine.timeline import Columns, new_columns


def operation(index: int, duration_ps: int) -> Operation:
    return Operation(index, Kind.COMPUTE, Phase.FORWARD, f"layer{index}", 0, duration_ps)


def rows(log: Columns) -> list[tuple[int, int, int, int]]:
    return list(zip(*log, strict=True))


def test_a_unit_serves_in_order_and_its_resources_work_together() -> None:
    env, log = simpy.Environment(initial_time=0), new_columns()
    unit = Unit(env, (7, 8), log)
    ended: list[tuple[str, float]] = []

    def user() -> Generator[simpy.Event, Any, None]:
        first, second = unit.submit(operation(0, 10)), unit.submit(operation(1, 5))
        yield first
        ended.append(("first", env.now))
        yield second
        ended.append(("second", env.now))
        yield env.timeout(100)
        yield unit.submit(operation(2, 0))
        ended.append(("third", env.now))

    env.process(user())
    env.run()
    assert ended == [("first", 10), ("second", 15), ("third", 115)]
    assert rows(log) == [
        (7, 0, 0, 10),
        (8, 0, 0, 10),
        (7, 1, 10, 15),
        (8, 1, 10, 15),
        (7, 2, 115, 115),
        (8, 2, 115, 115),
    ]


def test_a_link_starts_when_the_last_member_has_joined() -> None:
    env, log = simpy.Environment(initial_time=0), new_columns()
    link = Link(env, 3, log, members=(0, 1))
    ended: list[tuple[str, float]] = []
    exchange, again = operation(0, 7), operation(1, 2)

    def member(name: str, arrives: int) -> Generator[simpy.Event, Any, None]:
        yield env.timeout(arrives)
        yield link.join(exchange)
        ended.append((name, env.now))
        yield link.join(again)
        ended.append((name, env.now))

    env.process(member("early", 1))
    env.process(member("late", 20))
    env.run()
    assert ended == [("early", 27), ("late", 27), ("early", 29), ("late", 29)]
    assert rows(log) == [(3, 0, 20, 27), (3, 1, 27, 29)]
