"""A core with several units: each does one thing at a time, all share the HBM."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Device
from planners.order import Kind, Phase
from simulator import DeadlockError, Machine, Operation, Program, Task, Timeline, Worker, run
from simulator.engine.operations import Instruction, Part, RankProgram

DEVICE = Device("units", 1, 1, 1e12, 1e9, 1e12, 1e9)
NAMES = ("matrix", "vector")
RATE = 1e9
"""Bytes a second of the HBM: a picosecond is a thousandth of a byte."""


def compute(unit: int, duration_ps: int, hbm_bytes: float = 0.0) -> Operation:
    return Operation(
        Kind.COMPUTE, Phase.FORWARD, "x", duration_ps=duration_ps, hbm_bytes=hbm_bytes, unit=unit
    )


def worker(*tasks: Task, rank_program: RankProgram | None = None) -> Worker:
    return Worker(DEVICE, tasks, unit="core", hbm=0, units=NAMES, rank_program=rank_program)


def spans(timeline: Timeline) -> list[tuple[str, int, int]]:
    found = ((r.resource, r.start_ps, r.end_ps) for r in timeline if r.kind == str(Kind.COMPUTE))
    return sorted(found)


def test_what_moves_at_once_shares_the_hbm() -> None:
    """Twice 1000 B at 1 GB/s: both take 2 us at once, and 1 us each one after the other."""
    both = run(Program((worker(Task(compute(0, 5, 1e3)), Task(compute(1, 5, 1e3))),), hbms=(RATE,)))
    assert spans(both) == [("core0.matrix", 0, 2_000_000), ("core0.vector", 0, 2_000_000)]
    tasks = Task(compute(0, 5, 1e3)), Task(compute(0, 5, 1e3))
    one = run(Program((worker(*tasks),), hbms=(RATE,)))
    assert spans(one) == [("core0.matrix", 0, 1_000_000), ("core0.matrix", 1_000_000, 2_000_000)]
    assert one.memory_bytes == both.memory_bytes == (2000.0,)


def test_a_longer_one_goes_on_alone() -> None:
    """1000 and 3000 B: half the rate until 2 us, then all of it for the 2000 B that are left."""
    tasks = Task(compute(0, 5, 1e3)), Task(compute(1, 5, 3e3))
    found = spans(run(Program((worker(*tasks),), hbms=(RATE,))))
    assert found == [("core0.matrix", 0, 2_000_000), ("core0.vector", 0, 4_000_000)]


@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(1, 50)), min_size=1, max_size=9), st.data()
)
def test_units_do_theirs_in_order_and_each_after_what_it_needs(
    wanted: list[tuple[int, int]], data: st.DataObject
) -> None:
    """Each starts when its needs are over and its unit is free, and no later."""
    tasks = []
    for i, (unit, duration) in enumerate(wanted):
        needs = data.draw(st.sets(st.integers(0, i - 1))) if i else set()
        tasks.append(Task(compute(unit, duration), tuple(sorted(needs))))
    timeline = run(Program((worker(*tasks),), hbms=(RATE,)))
    free, ends = [0, 0], list[int]()
    for task in tasks:
        unit = task.operation.unit
        start = max([free[unit], *(ends[i] for i in task.needs)])
        ends.append(start + task.operation.duration_ps)
        free[unit] = ends[-1]
    assert timeline.makespan_ps == max(ends)
    assert sorted(end for _, _, end in spans(timeline)) == sorted(ends)
    for unit_name in NAMES:
        mine = [s[1:] for s in spans(timeline) if s[0].endswith(unit_name)]
        assert all(one[1] <= other[0] for one, other in pairwise(mine))
    assert (timeline.cores, timeline.idle_cores) == (1, 0)


def test_several_turns_are_under_way_at_once() -> None:
    """3 ps on one unit, then 4 on the other, of three turns: 3 + 3 * 4, not 3 * 7."""
    tasks = Task(compute(0, 3)), Task(compute(1, 4), (0,))
    forward = frozenset({Part.FORWARD})
    instructions = tuple(Instruction(forward, 0, micro_batch) for micro_batch in range(3))
    rank_program = RankProgram(instructions, {(0, Part.FORWARD): (0, 1)}, {})
    timeline = run(Program((worker(*tasks, rank_program=rank_program),), hbms=(RATE,)))
    assert timeline.makespan_ps == 15


@pytest.mark.parametrize("micro_batches", [0, 2])
def test_what_never_comes_is_a_deadlock_with_its_name(micro_batches: int) -> None:
    """The unit was given what waits for it: the run says so and does not just end."""
    send = Operation(Kind.SEND, Phase.FORWARD, "never sent")
    tasks = Task(send), Task(compute(0, 5), (0,))
    rank_program = RankProgram(
        tuple(
            Instruction(frozenset({Part.FORWARD}), 0, micro_batch)
            for micro_batch in range(micro_batches)
        ),
        {(0, Part.FORWARD): (0, 1)},
        {},
    )
    mine = worker(*tasks, rank_program=rank_program)
    if not micro_batches:
        assert len(run(Program((mine,), hbms=(RATE,)))) == 0
        return
    with pytest.raises(DeadlockError, match=r"core0 \(units\)"):
        run(Program((mine,), hbms=(RATE,)))


def test_units_are_no_blocks() -> None:
    machine = Machine(Program((worker(),), hbms=(RATE,)))
    assert machine.block(0, (compute(0, 3), compute(1, 4))) is None
    plain = Worker(DEVICE, unit="core", units=NAMES)
    assert Machine(Program((plain,))).block(0, (compute(0, 3), compute(1, 4))) is None


def test_an_idle_core_is_one_whose_units_did_nothing() -> None:
    idle = run(Program((worker(), worker(Task(compute(1, 3)))), hbms=(RATE, RATE)))
    assert (idle.cores, idle.idle_cores) == (2, 1)
