"""Programs that grow while they run: a pipeline, a parameter server, pairwise averaging.

Their workers are processes that submit operations and wait for what they
need. What they leave behind are records like any other's.
"""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from simulator import Machine, Timeline, shares
from simulator.analysis.critical_path import critical_path
from simulator.analysis.period import micro_batch_ends, steady_period
from simulator.engine.machine import Process
from simulator.engine.resources import Done
from simulator.engine.timeline import Period
from tests.simulator.engine.programs import compute, cores, exchange


def gapless(timeline: Timeline) -> list[str]:
    """The layers along the critical path, which has to be the whole run."""
    path = critical_path(timeline)
    now = 0
    for segment in path:
        assert segment.start_ps == now
        now = segment.end_ps
    assert now == timeline.iteration_ps
    return [segment.operation.layer for segment in path]


FORWARD, BACKWARD = 4, 8


def stage(machine: Machine, number: int, stages: int, batches: int, send_ps: int) -> Process:
    """One-forward-one-backward: as many forwards ahead as stages follow, then in turns."""
    ahead = min(stages - number - 1, batches)
    order = [("F", m) for m in range(ahead)]
    for m in range(batches - ahead):
        order += [("F", m + ahead), ("B", m)]
    order += [("B", m) for m in range(batches - ahead, batches)]
    for kind, m in order:
        source, target = (number - 1, number + 1) if kind == "F" else (number + 1, number - 1)
        needs: list[Done] = []
        if 0 <= source < stages:
            needs.append(machine.arrival((kind, number, m)))
            yield needs[0]
        duration = FORWARD if kind == "F" else BACKWARD
        done = machine.compute(number, compute(f"{kind}{number}", duration), m, needs)
        if 0 <= target < stages:
            send = exchange(f"{kind} to {target}", send_ps)
            machine.deliver(number, send, (kind, target, m), m, [done])
        yield done


def pipeline(stages: int, batches: int, send_ps: int = 0) -> Timeline:
    machine = Machine(cores(stages))
    for number in range(stages):
        machine.process(stage(machine, number, stages, batches, send_ps), number)
    return machine.run()


@pytest.mark.parametrize(("stages", "batches"), [(1, 3), (2, 1), (4, 4), (4, 9), (3, 32)])
def test_1f1b_takes_its_closed_form(stages: int, batches: int) -> None:
    """(M + S - 1)(F + B) where sends take no time."""
    timeline = pipeline(stages, batches)
    assert timeline.iteration_ps == (batches + stages - 1) * (FORWARD + BACKWARD)
    gapless(timeline)
    work = batches * (FORWARD + BACKWARD)
    assert shares(timeline).computing == pytest.approx(work / timeline.iteration_ps)


@pytest.mark.parametrize("send_ps", [0, 1, 2, 6])
def test_1f1b_is_bound_by_its_round_trip(send_ps: int) -> None:
    """Steadily S micro-batches go round in S (F + B) and 2 (S - 1) sends, in issue order."""
    stages = 4
    timeline = pipeline(stages, 64, send_ps)
    ends = micro_batch_ends(timeline)
    rounds = {ends[m + stages] - ends[m] for m in range(16, 40)}
    assert min(rounds) >= stages * (FORWARD + BACKWARD)
    if not send_ps:
        assert steady_period(timeline) == Period(FORWARD + BACKWARD, 1, 0)
    path = gapless(timeline)
    assert (sum("to" in layer for layer in path) > 0) == (send_ps > 0)


def server(machine: Machine, workers: Sequence[int], micro_batches: int) -> Process:
    """Asynchronous: whoever's gradient comes is applied and gets the new weights back."""
    left = {worker: machine.arrival(("gradient", worker, 0)) for worker in workers}
    micro_batch = dict.fromkeys(workers, 0)
    while left:
        yield machine.env.any_of(left.values())
        for worker in [w for w, event in left.items() if event.processed]:
            update = machine.compute(
                0, compute("update", 1), micro_batch[worker], [left.pop(worker)]
            )
            key = ("weights", worker, micro_batch[worker])
            machine.deliver(0, exchange("weights", 2), key, micro_batch[worker], [update])
            micro_batch[worker] += 1
            if micro_batch[worker] < micro_batches:
                left[worker] = machine.arrival(("gradient", worker, micro_batch[worker]))


def client(machine: Machine, worker: int, micro_batches: int) -> Process:
    after: list[Done] = []
    for micro_batch in range(micro_batches):
        step = machine.compute(worker, compute("step", 10), micro_batch, after)
        machine.deliver(
            worker, exchange("gradient", 2), ("gradient", worker, micro_batch), micro_batch, [step]
        )
        after = [machine.arrival(("weights", worker, micro_batch))]
        yield after[0]


def test_a_parameter_server_does_not_wait_for_the_slow_one() -> None:
    """A turn is a step, a gradient there, an update, and weights back: 10 + 2 + 1 + 2."""
    program = cores(4)
    slow = replace(program.workers[3], pace=lambda _: 5.0)
    machine = Machine(replace(program, workers=(*program.workers[:3], slow)))
    machine.process(server(machine, (1, 2, 3), 20), 0)
    for worker in (1, 2, 3):
        machine.process(client(machine, worker, 20), worker)
    timeline = machine.run()
    steps = {
        worker: [r.end_ps for r in timeline if r.resource == f"core{worker}.core"]
        for worker in (1, 2, 3)
    }
    assert steps[3][-1] == 20 * (50 + 5) - 5
    assert steps[1][-1] <= 20 * (15 + 1) - 5  # behind the other's update at most
    assert set(gapless(timeline)) == {"step", "gradient", "update", "weights"}


def averages(machine: Machine, worker: int, count: int, micro_batches: int) -> Process:
    """Each turn: compute, then average with the neighbour, to the left and right in turns."""
    after: list[Done] = []
    for micro_batch in range(micro_batches):
        step = machine.compute(worker, compute(f"step {worker}", 10 + worker), micro_batch, after)
        pair = (worker + micro_batch) // 2 % (count // 2) if count > 2 else 0
        meet = exchange("average", 3)
        after = [
            machine.meet(worker, meet, 2, micro_batch, [step], key=("pair", pair), communicator=0)
        ]
        yield after[0]


def test_pairs_that_average_wait_for_each_other_only() -> None:
    """Two workers: each turn is the slower one's step and the exchange."""
    machine = Machine(cores(2))
    for worker in (0, 1):
        machine.process(averages(machine, worker, 2, 8), worker)
    timeline = machine.run()
    assert timeline.iteration_ps == 8 * (11 + 3)
    assert gapless(timeline) == ["step 1", "average"] * 8
    assert steady_period(timeline) == Period(14, 1, 0)


def test_delay_spreads_by_one_neighbour_a_turn() -> None:
    """Six in a ring: who is slow in turn 0 delays a pair, then their neighbours, ..."""
    program = cores(6)
    slow = replace(program.workers[0], pace=lambda micro_batch: 10.0 if micro_batch == 0 else 1.0)
    machine = Machine(replace(program, workers=(slow, *program.workers[1:])))
    step, meet = compute("step", 10), exchange("average", 0)

    def member(worker: int) -> Process:
        after: list[Done] = []
        for micro_batch in range(3):
            done = machine.compute(worker, step, micro_batch, after)
            pair = frozenset(
                {worker, (worker + (1 if (worker + micro_batch) % 2 == 0 else -1)) % 6}
            )
            after = [machine.meet(worker, meet, 2, micro_batch, [done], key=pair, communicator=0)]
            yield after[0]

    for worker in range(6):
        machine.process(member(worker), worker)
    timeline = machine.run()
    late = [0, 0, 0]
    for record in timeline:
        late[record.micro_batch] += record.kind == "compute" and record.end_ps > 10 * (
            record.micro_batch + 1
        )
    assert late == [1, 2, 4]
