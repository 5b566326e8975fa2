import pytest
import simpy

from hardware import Device, load_array
from planners import load_planner
from planners.steps import Kind, Phase
from simulator import Branch, DeadlockError, Leaf, Machine, Operation, Program, run, simulate
from workloads import load_network

DEVICE = Device("board", 2, 2, 1e12, 1e9, 1e9, 1e9)
OTHER = Device("other", 1, 1, 1e12, 1e9, 1e9, 1e9)


def compute(index: int, duration: int, flops: float = 0.0) -> Operation:
    return Operation(index, Kind.COMPUTE, Phase.FORWARD, f"c{index}", -1, duration, flops=flops)


def exchange(index: int, duration: int, level: int = 0) -> Operation:
    return Operation(index, Kind.SUMS, Phase.FORWARD, f"x{index}", level, duration, (3.0, 5.0))


def two_boards(first: tuple[Operation, ...], second: tuple[Operation, ...]) -> Program:
    ops = {op.index: op for op in (*first, *second)}
    halves = (Leaf(DEVICE, first, 2, 2), Leaf(OTHER, second, 1, 1))
    return Program(tuple(ops[i] for i in range(len(ops))), Branch(0, halves))


def test_every_core_hbm_and_link_of_the_array_is_there() -> None:
    machine = Machine(two_boards((), ()))
    assert [tuple(resource) for resource in machine.resources] == [
        ("link", "link0.0", 1, 5, None),
        ("core", "board0.chip0.core0", 1, 1, DEVICE),
        ("core", "board0.chip0.core1", 1, 1, DEVICE),
        ("hbm", "board0.chip0.hbm", 1, 0, DEVICE),
        ("core", "board0.chip1.core0", 1, 1, DEVICE),
        ("core", "board0.chip1.core1", 1, 1, DEVICE),
        ("hbm", "board0.chip1.hbm", 1, 0, DEVICE),
        ("core", "board1.chip0.core0", 1, 1, OTHER),
        ("hbm", "board1.chip0.hbm", 1, 0, OTHER),
    ]


def test_a_run_as_a_whole_log() -> None:
    slow, fast, meet, after = compute(0, 10, 3.0), compute(1, 4, 5.0), exchange(2, 6), compute(3, 1)
    timeline = run(two_boards((slow, meet), (fast, meet, after)))
    assert [(r.resource, r.layer, r.start_ps, r.end_ps) for r in timeline] == [
        ("board1.chip0.core0", "c1", 0, 4),
        ("board0.chip0.core0", "c0", 0, 10),
        ("board0.chip0.core1", "c0", 0, 10),
        ("board0.chip1.core0", "c0", 0, 10),
        ("board0.chip1.core1", "c0", 0, 10),
        ("link0.0", "x2", 10, 16),
        ("board1.chip0.core0", "c3", 16, 17),
    ]
    assert timeline.iteration_ps == 17
    assert timeline.iteration_s == 17e-12
    assert timeline.flops_by_device() == {DEVICE: 12.0, OTHER: 5.0}
    computing, communicating, waiting = timeline.shares()
    assert computing == (4 * 10 + 4 + 1) / (5 * 17)
    assert communicating == (5 * 6) / (5 * 17)
    assert waiting == pytest.approx(1 - computing - communicating)


def test_events_are_the_wakeups_of_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted where SimPy resumes a process, on a whole step of a real plan."""
    resumed = 0
    resume = simpy.Process._resume

    def counting(process: simpy.Process, event: simpy.Event) -> None:
        nonlocal resumed
        resumed += 1
        resume(process, event)

    monkeypatch.setattr(simpy.Process, "_resume", counting)
    network = load_network("resnet18")
    array = load_array("accpar-mixed", ["devices.0.count=3", "devices.1.count=4"])
    plan = load_planner("accpar")(network, array, 512)
    for folded in (False, True):
        resumed = 0
        assert simulate(network, plan, array, folded=folded).events == resumed > 0


def test_a_boards_cores_share_an_event() -> None:
    """One event for each operation of a board, one to start a process, one to end a board's."""
    processes = (4 + 2 + 1) + (1 + 1 + 1) + 1
    meet = exchange(2, 1)
    machine = Machine(two_boards((compute(0, 1), compute(1, 1), meet), (meet,)))
    machine.run()
    assert next(machine.env._eid) == processes + 3 + 2


def test_memory_and_links_take_operations_too() -> None:
    machine = Machine(two_boards((), ()))
    done = machine.boards[0].hbms[1].submit(compute(0, 5))
    machine.env.run(done)
    assert machine.env.now == 5
    assert machine.resources[machine.boards[0].hbms[1].resources[0]].name == "board0.chip1.hbm"


def test_a_deadlock_names_who_waits_for_what() -> None:
    one, other = exchange(0, 1), exchange(1, 1)
    with pytest.raises(DeadlockError) as caught:
        run(two_boards((one, other), (other, one)))
    message = str(caught.value)
    assert "2 accelerators wait" in message
    assert "board0 (board) waits in forward partial sums of x0 at level 0" in message
    assert "board1 (other) waits in forward partial sums of x1 at level 0" in message


def test_a_missing_partner_is_a_deadlock() -> None:
    with pytest.raises(DeadlockError, match="1 accelerators wait"):
        run(two_boards((exchange(0, 1),), ()))


def test_an_empty_program_takes_no_time() -> None:
    timeline = run(two_boards((), ()))
    assert (timeline.iteration_ps, len(timeline)) == (0, 0)
    assert timeline.shares() == (0.0, 0.0, 0.0)
