"""List scheduling against a slow second one, which looks at every picosecond."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from simulator.lowering.units.list_scheduling import (
    NOWHERE,
    Placed,
    UnitTask,
    list_schedule,
    urgency,
)


@st.composite
def tasks_with_choice(draw: st.DrawFn) -> tuple[int, list[UnitTask]]:
    """Tasks on one unit, on any of several, or on none."""
    units, tasks = draw(st.integers(1, 3)), list[UnitTask]()
    for i in range(draw(st.integers(1, 9))):
        needs = draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set[int]()
        kind = draw(st.sampled_from(["one", "any", "none"]))
        times = [(u, draw(st.integers(1, 20))) for u in range(units)]
        first = min(times, key=lambda one: one[1])
        if kind == "none":
            first = (NOWHERE, draw(st.integers(0, 5)))
        tasks.append(
            UnitTask(
                str(i), *first, tuple(sorted(needs)), choice=tuple(times) if kind == "any" else ()
            )
        )
    return units, tasks


def left_of(tasks: Sequence[UnitTask], i: int) -> int:
    """The longest way from a task to the end."""
    return tasks[i].duration_ps + max(
        (left_of(tasks, j) for j, task in enumerate(tasks) if i in task.needs), default=0
    )


def slowly(tasks: Sequence[UnitTask], units: int) -> Placed:
    """At each picosecond the most urgent that is ready first, where it is over first."""
    starts, ends, where = dict[int, int](), dict[int, int](), dict[int, int]()
    free, now = [0] * units, 0
    while len(starts) < len(tasks):
        changed = True
        while changed:  # what takes no time lets others be ready at once
            changed = False
            for i, task in enumerate(tasks):
                met = all(ends.get(n, now + 1) <= now for n in task.needs)
                if task.unit == NOWHERE and i not in starts and met:
                    starts[i], ends[i], where[i] = now, now + task.duration_ps, NOWHERE
                    changed = True
        ready = [
            i
            for i, task in enumerate(tasks)
            if i not in starts and all(ends.get(n, now + 1) <= now for n in task.needs)
        ]
        until = [max(now, end) for end in free]
        for i in sorted(ready, key=lambda i: (-left_of(tasks, i), i)):
            choice = tasks[i].choice or ((tasks[i].unit, tasks[i].duration_ps),)
            unit, duration = min(choice, key=lambda one: until[one[0]] + one[1])
            if until[unit] == now:
                starts[i], ends[i], where[i] = now, now + duration, unit
                free[unit] = now + duration
            until[unit] += duration
        now += 1
    order = range(len(tasks))
    return Placed([starts[i] for i in order], [where[i] for i in order])


@given(tasks_with_choice())
def test_a_slow_scheduler_finds_the_same(graph: tuple[int, list[UnitTask]]) -> None:
    units, tasks = graph
    assert [left_of(tasks, i) for i in range(len(tasks))] == urgency(tasks)
    assert list_schedule(tasks, units) == slowly(tasks, units)


def test_the_example_of_the_docstring() -> None:
    tasks = [UnitTask(str(i), 0, 10, choice=((0, 10), (1, 25))) for i in range(3)]
    assert list_schedule(tasks, 2) == ([0, 10, 0], [0, 0, 1])


def test_what_keeps_no_unit_busy_goes_on_beside() -> None:
    """4 ps on the wires behind the first of two computations, before the third."""
    tasks = [
        UnitTask("gradient", 0, 5),
        UnitTask("exchange", NOWHERE, 4, (0,)),
        UnitTask("other", 0, 3),
        UnitTask("update", 0, 1, (1,)),
    ]
    assert list_schedule(tasks, 1) == ([0, 5, 5, 9], [0, NOWHERE, 0, 0])
