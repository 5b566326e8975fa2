"""The machine's face, as whole logs of (who, what, when) and of what each waited for."""

from dataclasses import replace

import pytest
import simpy

from hardware import load_array
from planners import load_planner
from simulator import DEPLOYED, DeadlockError, Execution, Machine, run, shares, simulate
from simulator.analysis.critical_path import critical_path
from simulator.engine.machine import Process
from simulator.engine.records import NO_ROW
from tests.simulator.engine.programs import (
    DEVICE,
    OTHER,
    causes,
    compute,
    cores,
    exchange,
    in_order,
    log,
    two_boards,
)
from workloads import load_network


def test_every_core_hbm_and_link_of_the_array_is_there() -> None:
    machine = Machine(two_boards((), ()))
    assert [tuple(resource) for resource in machine.all_resources.resources] == [
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
    slow, fast, meet, after = (
        compute("slow", 10, 3.0),
        compute("fast", 4, 5.0),
        exchange("meet", 6),
        compute("after", 1),
    )
    timeline = run(two_boards(in_order(slow, meet), in_order(fast, meet, after)))
    assert log(timeline) == [
        ("board1.chip0.core0", "fast", 0, 0, 4),
        ("board0.chip0.core0", "slow", 0, 0, 10),
        ("board0.chip0.core1", "slow", 0, 0, 10),
        ("board0.chip1.core0", "slow", 0, 0, 10),
        ("board0.chip1.core1", "slow", 0, 0, 10),
        ("link0.0", "meet", 0, 10, 16),
        ("board1.chip0.core0", "after", 0, 16, 17),
    ]
    assert causes(timeline) == [None, None, None, None, None, "slow", "meet"]
    assert sorted(zip(*timeline.participants, strict=True)) == [(0, 5, 1), (1, 5, 0)]
    assert timeline.iteration_ps == 17
    assert timeline.iteration_s == 17e-12
    assert timeline.flops_by_device() == {DEVICE: 12.0, OTHER: 5.0}
    computing, communicating, waiting = shares(timeline)
    assert computing == (4 * 10 + 4 + 1) / (5 * 17)
    assert communicating == (5 * 6) / (5 * 17)
    assert waiting == pytest.approx(1 - computing - communicating)


@pytest.mark.parametrize("model", ["published", "deployed"])
@pytest.mark.parametrize("folded", [False, True])
def test_events_are_what_simpy_processed(
    model: str, folded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted where SimPy takes an event from its queue, on a whole step of a real plan."""
    steps = 0
    step = simpy.Environment.step

    def counting(env: simpy.Environment) -> None:
        nonlocal steps
        step(env)
        steps += 1

    monkeypatch.setattr(simpy.Environment, "step", counting)
    network = load_network("resnet18")
    array = load_array("accpar-mixed", ["devices.0.count=3", "devices.1.count=4"])
    execution = DEPLOYED if model == "deployed" else Execution()
    plan = load_planner("accpar")(network, execution.planned(array), 512)
    assert simulate(network, plan, array, execution, folded=folded).events == steps > 0


def test_a_boards_cores_share_an_event() -> None:
    """One event starts a process and one ends it; one for each operation of a board."""
    cores_, controls, operations = 4 + 1, 2, 3
    meet = exchange("x", 1)
    timeline = run(two_boards(in_order(compute("a", 1), meet), in_order(compute("b", 1), meet)))
    assert timeline.events == cores_ + 2 * controls + operations


def test_cores_compute_in_the_order_in_which_they_are_given_work() -> None:
    """All three are given at once; the second needs another core's longer work first."""
    machine = Machine(cores(2))
    long = machine.compute(1, compute("long", 50))
    first = machine.compute(0, compute("first", 10))
    second = machine.compute(0, compute("second", 5), after=[long, first])
    machine.compute(0, compute("third", 0), micro_batch=7)
    timeline = machine.run()
    assert log(timeline) == [
        ("core0.core", "first", 0, 0, 10),
        ("core1.core", "long", 0, 0, 50),
        ("core0.core", "second", 0, 50, 55),
        ("core0.core", "third", 7, 55, 55),
    ]
    assert causes(timeline) == [None, None, "long", "second"]
    assert second.number == 2


def test_a_meeting_begins_with_its_last_party_and_ends_for_all() -> None:
    ended: list[tuple[str, float]] = []
    machine = Machine(cores(2))
    first, again = exchange("first", 7), exchange("again", 2)

    def member(worker: int, arrives: int) -> Process:
        done = machine.compute(worker, compute(f"work{worker}", arrives))
        yield done
        for operation in (first, again):
            done = machine.meet(worker, operation, 2, after=[done], communicator=0)
            yield done
            ended.append((operation.layer, machine.env.now))

    for worker, arrives in enumerate((1, 20)):
        machine.process(member(worker, arrives), worker)
    timeline = machine.run()
    assert ended == [("first", 27), ("first", 27), ("again", 29), ("again", 29)]
    assert log(timeline)[2:] == [("link0.0", "first", 0, 20, 27), ("link0.0", "again", 0, 27, 29)]
    assert causes(timeline) == [None, None, "work1", "first"]


def test_the_same_exchange_in_two_turns_is_two_meetings() -> None:
    """Worker 0 has come to both before worker 1 comes to the second, and then to the first."""
    machine = Machine(cores(2))
    meet = exchange("x", 3)
    for micro_batch in (0, 1):
        machine.meet(0, meet, 2, micro_batch, communicator=0)
    machine.meet(1, meet, 2, 1, communicator=0, after=[machine.compute(1, compute("a", 5))])
    machine.meet(1, meet, 2, 0, communicator=0, after=[machine.compute(1, compute("b", 5))])
    assert [row[2:] for row in log(machine.run())[1:]] == [(1, 5, 8), (0, 5, 10), (0, 10, 13)]


def test_a_delivery_is_there_for_whoever_comes_before_or_after() -> None:
    got: list[tuple[int, float]] = []
    machine = Machine(cores(3))
    send = exchange("send", 4)

    def receiver(worker: int, busy: int) -> Process:
        work = machine.compute(worker, compute("busy", busy))
        yield machine.compute(worker, compute("use", 1), after=[work, machine.arrival("w")])
        got.append((worker, machine.env.now))

    machine.deliver(0, send, "w", after=[machine.compute(0, compute("make", 10))])
    machine.process(receiver(1, 2), 1)
    machine.process(receiver(2, 30), 2)
    timeline = machine.run()
    assert got == [(1, 15), (2, 31)]
    uses = [i for i, record in enumerate(timeline) if record.layer == "use"]
    assert [causes(timeline)[i] for i in uses] == ["send", "busy"]


@pytest.mark.parametrize(
    ("ready", "starts", "cause"), [(4, 10, "make"), (30, 30, "busy"), (10, 10, "make")]
)
def test_a_rendezvous_begins_when_its_first_receiver_is_there(
    ready: int, starts: int, cause: str
) -> None:
    machine = Machine(cores(3))
    machine.receive(1, "w", [machine.compute(1, compute("busy", ready))])
    made = [machine.compute(0, compute("make", 10))]
    machine.deliver(0, exchange("send", 4), "w", after=made, rendezvous=True)
    machine.receive(2, "w", [machine.compute(2, compute("late", 50))])
    timeline = machine.run()
    (sent,) = (i for i, record in enumerate(timeline) if record.layer == "send")
    columns = timeline.columns
    assert (columns.start[sent], columns.end[sent]) == (starts, starts + 4)
    assert causes(timeline)[sent] == cause
    assert list(timeline.participants[0]) == [0]  # those who send


def test_the_critical_path_goes_over_to_who_receives_last() -> None:
    machine = Machine(cores(2))
    machine.receive(1, "w", [machine.compute(1, compute("busy", 30))])
    sent = machine.deliver(0, exchange("send", 4), "w", rendezvous=True)
    machine.compute(0, compute("next", 5), after=[sent])
    timeline = machine.run()
    path = [(one.operation.layer, one.core) for one in critical_path(timeline)]
    mine, its = (worker.cores[0] for worker in timeline.all_resources.workers)
    assert path[0] == ("busy", its)
    assert path[-1] == ("next", mine)


def test_a_worker_out_of_step_takes_longer_in_some_turns() -> None:
    program = cores(1, pace=lambda micro_batch: 2.5 if micro_batch == 1 else 1.0)
    machine = Machine(program)
    for micro_batch in range(3):
        machine.compute(0, compute("work", 10), micro_batch)
    assert [row[2:] for row in log(machine.run())] == [(0, 0, 10), (1, 10, 35), (2, 35, 45)]


def test_a_deadlock_names_who_waits_for_what() -> None:
    one, other = exchange("x0", 1), exchange("x1", 1)
    with pytest.raises(DeadlockError) as caught:
        run(two_boards(in_order(one, other), in_order(other, one)))
    message = str(caught.value)
    assert "2 accelerators wait" in message
    assert "board0 (board) waits in forward partial sums of x0 at level 0" in message
    assert "board1 (other) waits in forward partial sums of x1 at level 0" in message


def test_a_missing_partner_is_a_deadlock() -> None:
    with pytest.raises(DeadlockError, match="1 accelerators wait"):
        run(two_boards(in_order(exchange("x", 1), compute("after", 1)), ()))


def test_who_waits_when_a_driver_says_it_is_over_is_no_deadlock() -> None:
    machine = Machine(cores(2))

    def waits() -> Process:
        yield machine.meet(0, exchange("never", 1), 2, communicator=0)

    machine.process(waits(), 0)
    timeline = machine.run(until=machine.compute(1, compute("work", 9)))
    assert log(timeline) == [("core1.core", "work", 0, 0, 9)]


def test_an_empty_program_takes_no_time() -> None:
    timeline = run(two_boards((), ()))
    assert (timeline.iteration_ps, len(timeline)) == (0, 0)
    assert shares(timeline) == (0.0, 0.0, 0.0)
    assert timeline.idle_cores == 5


def test_what_waited_for_nothing_has_no_cause() -> None:
    timeline = run(two_boards(in_order(compute("a", 1)), ()))
    assert set(timeline.columns.cause) == {NO_ROW}


def test_what_stands_for_many_counts_as_many() -> None:
    """Three alike boards of five cores in all, one of the other kind that does nothing."""
    program = two_boards(in_order(compute("a", 10, 3.0)), ())
    many = replace(program.workers[0], multiplicity=3, chips=1, cores_per_chip=1)
    timeline = run(replace(program, workers=(many, program.workers[1])))
    (total,) = timeline.totals().values()
    assert (total.operations, total.core_ps, total.flops) == (12, 120, 36.0)
    assert (timeline.cores, timeline.idle_cores) == (13, 1)
    idle = run(replace(program, workers=(replace(many, template=()), program.workers[1])))
    assert idle.idle_cores == 13
