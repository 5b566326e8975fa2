"""Unlike units at once: steady rhythm, precedence, and the memory that they share."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Device
from simulator import SimulationError, Timeline
from simulator.lowering.units.list_scheduling import UnitTask, list_schedule, urgency
from simulator.lowering.units.run import (
    in_the_long_run,
    modulo_schedule,
    run_tasks,
)

DEVICE = Device("units", 1, 1, 1e12, 1e9, 1e12, 1e9)
FREE = 1e18
"""A memory that nobody waits for."""


@st.composite
def task_graphs(draw: st.DrawFn, most_units: int = 3) -> tuple[int, list[UnitTask]]:
    units = draw(st.integers(1, most_units))
    tasks = []
    for i in range(draw(st.integers(1, 8))):
        needs = draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set[int]()
        unit, duration = draw(st.integers(0, units - 1)), draw(st.integers(1, 50))
        tasks.append(UnitTask(str(i), unit, duration, tuple(sorted(needs))))
    return units, tasks


def spans(timeline: Timeline) -> dict[tuple[int, str], tuple[str, int, int]]:
    return {(r.micro_batch, r.layer): (r.resource, r.start_ps, r.end_ps) for r in timeline}


@given(task_graphs(), st.integers(1, 4))
def test_each_task_once_a_batch_after_its_needs_and_a_unit_one_at_a_time(
    graph: tuple[int, list[UnitTask]], batches: int
) -> None:
    units, tasks = graph
    timeline = run_tasks(DEVICE, units, tasks, FREE, batches)
    found = spans(timeline)
    assert len(found) == len(timeline) == batches * len(tasks)
    for batch in range(batches):
        for task in tasks:
            resource, start, end = found[batch, task.name]
            assert resource == f"core{task.unit}.core"
            assert end - start == task.duration_ps
            assert all(found[batch, tasks[i].name][2] <= start for i in task.needs)
    for unit in range(units):
        mine = sorted(s[1:] for s in found.values() if s[0] == f"core{unit}.core")
        assert all(one[1] <= other[0] for one, other in pairwise(mine))


@given(task_graphs())
def test_one_batch_is_a_list_schedule_along_the_critical_path(
    graph: tuple[int, list[UnitTask]],
) -> None:
    units, tasks = graph
    timeline = run_tasks(DEVICE, units, tasks, FREE)
    starts = {layer: start for (_, layer), (_, start, _) in spans(timeline).items()}
    assert [starts[task.name] for task in tasks] == list_schedule(tasks, units).starts
    assert timeline.makespan_ps >= max(urgency(tasks))


def test_a_rhythm_that_cannot_last_is_not_the_long_run() -> None:
    """Unit 0 ends every batch, with 51 ps of work; unit 1 has 52 and falls behind."""
    work = [(1, 6), (0, 22), (1, 17), (1, 29), (0, 1), (0, 28)]
    needs = {4: (0, 2)}
    tasks = [UnitTask(str(i), *one, needs.get(i, ())) for i, one in enumerate(work)]
    steady = in_the_long_run(DEVICE, 2, tasks, FREE)
    assert steady.exact
    assert steady.batch_s == pytest.approx(52e-12)


@given(task_graphs())
def test_any_graph_in_the_long_run_takes_as_long_as_its_busiest_unit(
    graph: tuple[int, list[UnitTask]],
) -> None:
    units, tasks = graph
    steady = in_the_long_run(DEVICE, units, tasks, FREE)
    busiest = max(sum(t.duration_ps for t in tasks if t.unit == unit) for unit in range(units))
    assert steady.exact
    assert steady.batch_s == pytest.approx(busiest * 1e-12, rel=1e-9, abs=0)


@given(task_graphs())
def test_a_modulo_schedule_keeps_its_promises(graph: tuple[int, list[UnitTask]]) -> None:
    """Needs are met, and no two tasks of any batches are on a unit at once; runs keep up."""
    units, tasks = graph
    starts, period = modulo_schedule(tasks, units)
    for i, task in enumerate(tasks):
        assert all(starts[b] + tasks[b].duration_ps <= starts[i] for b in task.needs)
    for unit in range(units):
        slots = [
            (starts[i] + d) % period
            for i, task in enumerate(tasks)
            if task.unit == unit
            for d in range(task.duration_ps)
        ]
        assert len(slots) == len(set(slots))
    found = spans(run_tasks(DEVICE, units, tasks, FREE, 5))
    for batch in range(5):
        for start, task in zip(starts, tasks, strict=True):
            assert found[batch, task.name][1] <= start + batch * period


def test_the_modulo_schedule_of_the_docstring() -> None:
    tasks = [UnitTask("a", 0, 3), UnitTask("b", 1, 4, (0,)), UnitTask("c", 0, 2, (1,))]
    assert modulo_schedule(tasks, 2) == ([0, 5, 13], 5)


def test_two_batches_overlap_on_two_units() -> None:
    """3 ps on one unit, then 2 on the other: a batch every 3 ps, where one takes 5."""
    tasks = [UnitTask("a", 0, 3), UnitTask("b", 1, 2, (0,))]
    steady = in_the_long_run(DEVICE, 2, tasks, FREE)
    assert steady.batch_s == pytest.approx(3e-12, abs=0)
    assert steady.in_flight == 2
    assert run_tasks(DEVICE, 2, tasks, FREE).makespan_ps == 5


def test_units_share_the_memory() -> None:
    """30 B each at a byte a picosecond: 60 ps both, where 10 ps of computing are asked."""
    tasks = [UnitTask("a", 0, 10, (), 30.0), UnitTask("b", 1, 10, (), 30.0)]
    assert run_tasks(DEVICE, 2, tasks, 1e12).makespan_ps == 60
    assert run_tasks(DEVICE, 2, tasks[:1], 1e12).makespan_ps == 30


@pytest.mark.parametrize(
    "tasks",
    [
        [UnitTask("a", 2, 1)],
        [UnitTask("a", 0, 0)],
        [UnitTask("a", 0, 1, (0,))],
        [UnitTask("a", 0, 1, (-1,))],
    ],
)
def test_tasks_that_make_no_sense(tasks: list[UnitTask]) -> None:
    with pytest.raises(SimulationError, match="task 'a'"):
        run_tasks(DEVICE, 2, tasks, FREE)


def test_at_least_one_batch_and_a_memory() -> None:
    for batches, memory in ((0, FREE), (1, 0.0)):
        with pytest.raises(SimulationError, match="at least one batch, and a memory"):
            run_tasks(DEVICE, 1, [UnitTask("a", 0, 1)], memory, batches)
