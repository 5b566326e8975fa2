"""Stages that send and receive in turn, against DeepSpeed's schedule once more.

What each stage does is written down from the formulas of microsoft/DeepSpeed,
runtime/pipe/schedule.py (TrainSchedule): in step t a stage computes forward if t + stage is even,
else backward, of a micro-batch by its place; before it, it exchanges with one neighbour.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil
from random import Random

import pytest

from hardware import Array, Group, load_array
from hardware.array import Stack
from hardware.topology import Topology
from planners import planned_in_stages
from planners.pipeline.staging import Staging, places_of
from simulator import simulate
from simulator.analysis.stages import stage_uses
from simulator.engine.operations import Sends
from simulator.engine.replay import run
from simulator.lowering.execution import deployed
from tests.simulator.lowering.pipelines_by_hand import Times, pipeline_of, program
from tests.simulator.lowering.test_pipelines_deployed import LATENCY_PS, alone, chain, device
from workloads import Builder, cut

Command = tuple[str, int, int]
"""What, of which micro-batch (of errors: minus one minus it), with whom."""


def commands(stage: int, stages: int, micro_batches: int) -> Iterator[Command]:
    """What a stage does, in order."""

    def valid(micro_batch: int) -> bool:
        return 0 <= micro_batch < micro_batches

    before = -1
    for step in range(2 * (micro_batches + stages - 1)):
        forward = step % 2 == stage % 2
        if forward:
            micro_batch = (step - stage % 2) // 2 - stage // 2
        elif stage % 2:
            micro_batch = step // 2 - stages + (stage + 1) // 2
        else:
            micro_batch = (step - 1) // 2 - stages + 1 + stage // 2
        other = stage - 1 if forward else stage + 1
        if 0 <= other < stages:
            taken: Command = ("receive", micro_batch if forward else -1 - micro_batch, other)
            given: Command = ("send", -1 - before if forward else before, other)
            both = [(taken, micro_batch), (given, before)]
            for command, of in both if forward else reversed(both):
                if valid(of):
                    yield command
        if valid(micro_batch):
            yield ("F" if forward else "B", micro_batch, stage)
        before = micro_batch


def ends(
    forward: Sequence[int], backward: Sequence[int], sends: Sequence[int], micro_batches: int
) -> list[int]:
    """When each stage is through: both ends of a send wait for each other, then for it."""
    stages = len(forward)
    left = [list(commands(stage, stages, micro_batches)) for stage in range(stages)]
    now = [0] * stages
    while any(left):
        moved = False
        for stage, mine in enumerate(left):
            if not mine:
                continue
            what, micro_batch, other = mine[0]
            if what in "FB":
                now[stage] += (forward if what == "F" else backward)[stage]
            elif left[other][:1] == [("receive" if what == "send" else "send", micro_batch, stage)]:
                over = max(now[stage], now[other]) + sends[min(stage, other)]
                now[stage] = now[other] = over
                left[other].pop(0)
            else:
                continue
            mine.pop(0)
            moved = True
        assert moved, "a deadlock"
    return now


@pytest.mark.parametrize("seed", range(60))
def test_any_stages_end_when_deepspeeds_do(seed: int) -> None:
    rng = Random(seed)  # noqa: S311 (the same every time)
    stages, micro_batches = rng.randint(2, 7), rng.randint(1, 12)
    times = [Times(*(rng.randint(1, 50) for _ in range(3))) for _ in range(stages)]
    sends = [rng.randint(1, 30) for _ in range(stages - 1)]
    pipeline = pipeline_of("1f1b", stages, micro_batches, [1] * stages)
    found = run(program(pipeline, times, sends, how="rendezvous"))
    wanted = ends(
        [one.forward for one in times],
        [one.errors + one.weights for one in times],
        sends,
        micro_batches,
    )
    assert found.makespan_ps == max(wanted)


@pytest.mark.parametrize(("stages", "alone", "both"), [(2, 1, 2), (5, 2, 4)])
def test_a_micro_batch_waits_for_so_many_sends(stages: int, alone: int, both: int) -> None:
    """Senders alone wait for one or two, in the middle; with who receives it is twice as many."""
    times, sends = [Times(20, 20, 20)] * stages, [3] * (stages - 1)
    modes: tuple[tuple[Sends, int], ...] = (("waited for", alone), ("rendezvous", both))
    for how, each in modes:
        few, many = (
            run(program(pipeline_of("1f1b", stages, n, [1] * stages), times, sends, how=how))
            for n in (40, 60)
        )
        assert many.makespan_ps - few.makespan_ps == 20 * (60 + 3 * each)


def test_time_at_both_ends_of_sends_is_exposed() -> None:
    """A stage in the middle sends 40 times each way, and receives as often; the ends one way."""
    times, micro_batches = [Times(20, 20, 20)] * 5, 40
    pipeline = pipeline_of("1f1b", 5, micro_batches, [1] * 5)
    found = [
        use.receiving
        for use in stage_uses(run(program(pipeline, times, [3] * 4, how="rendezvous")))
    ]
    wanted = [2 * 3 * micro_batches, *[4 * 3 * micro_batches] * 3, 2 * 3 * micro_batches]
    assert found == pytest.approx(wanted, rel=0.03)  # what a stage waits for at first is none


@pytest.mark.parametrize("seed", range(6))
def test_networks_on_wires_of_a_stack_that_sends_so(seed: int) -> None:
    rng = Random(100 + seed)  # noqa: S311 (the same every time)
    ranks, micro = rng.randint(2, 5), rng.randint(1, 6)
    layers = rng.randint(ranks, ranks + 3)
    network, rows = chain(rng, layers), rng.randint(1, 40)
    port = rng.randint(10**7, 10**9)
    array = Array(
        *("cores", "", Group(((device(port), ranks),))),
        topology=Topology("fully_connected"),
        stack=Stack("in turn", overlap=False, sends="rendezvous"),
    )
    execution = deployed(array)
    planned = execution.planned(array)
    firsts = [0, *sorted(rng.sample(range(1, layers), ranks - 1))]
    plan = planned_in_stages(
        *("data_parallel", network, planned, rows * micro, Staging(ranks, micro), firsts),
        places_of(planned, ranks),
    )
    alone_ = [alone(one, planned, rows, execution) for one in cut(network, firsts).networks]
    shapes = {layer.name: layer for layer in network.layers}
    sizes = [rows * shapes[f"fc{first - 1}"].output.channels * 2 for first in firsts[1:]]
    wanted = ends(
        [sum(layer.forward for layer in one.layers) for one in alone_],
        [sum(layer.errors + layer.weights for layer in one.layers) for one in alone_],
        [ceil(Fraction(size, port) * 10**12) + LATENCY_PS for size in sizes],
        micro,
    )
    updates = [one.update for one in alone_]
    for folded in (True, False):
        found = simulate(network, plan, array, execution, folded=folded)
        assert found.makespan_ps == max(map(sum, zip(wanted, updates, strict=True)))


def test_only_1f1b_of_a_stack_that_does_so_sends_in_turn() -> None:
    array = load_array("v100-cluster", ["nodes=1", "precision=fp16", "stack=deepspeed-2022"])
    network = chain(Random(0), 8)  # noqa: S311 (the same every time)
    assert array.stack is not None
    other = replace(array, stack=replace(array.stack, sends=None))

    def step_ps(on: Array, schedule: str) -> int:
        execution = deployed(on)
        planned = execution.planned(on)
        places = places_of(planned, 4)
        staging = Staging(4, 8, schedule)
        plan = planned_in_stages(
            "data_parallel", network, planned, 64, staging, [0, 2, 4, 6], places
        )
        return simulate(network, plan, on, execution).makespan_ps

    assert step_ps(array, "1f1b") > step_ps(other, "1f1b")
    assert step_ps(array, "gpipe") == step_ps(other, "gpipe")


@pytest.mark.parametrize("seed", range(6))
def test_stages_that_wait_for_sends_take_as_long_where_gradients_overlap(seed: int) -> None:
    """One replica exchanges nothing else: as with no overlap at all, whose times are known."""
    rng = Random(200 + seed)  # noqa: S311 (the same every time)
    ranks, micro, layers = rng.randint(2, 5), rng.randint(1, 6), 6
    network, rows, port = chain(rng, layers), rng.randint(1, 40), rng.randint(10**7, 10**9)
    group, full = Group(((device(port), ranks),)), Topology("fully_connected")
    waiting = Stack("one", overlap=True, sends="waited for")
    firsts = [0, *sorted(rng.sample(range(1, layers), ranks - 1))]

    def took(stack: Stack | None, *, overlap: bool = True) -> int:
        array = Array("cores", "", group, topology=full, stack=stack)
        execution = replace(deployed(array), overlap=overlap)
        planned = execution.planned(array)
        plan = planned_in_stages(
            *("data_parallel", network, planned, rows * micro, Staging(ranks, micro), firsts),
            places_of(planned, ranks),
        )
        return simulate(network, plan, array, execution).makespan_ps

    assert took(waiting) == took(None, overlap=False)
    assert took(waiting) > took(None) or micro == 1


@pytest.mark.parametrize(("skip", "sends"), [(False, "rendezvous"), (True, "waited for")])
def test_tensors_that_pass_a_stage_by_need_no_receiver(skip: bool, sends: Sends) -> None:
    """What the first stage sent to the last one would keep it from sending to the second."""
    net = Builder("skip", 64, 1)
    net.flatten("flat")
    first, last = net.fc("fc0", 64), ""
    for k in range(1, 5):
        last = net.fc(f"fc{k}", 64)
    net.fc("fc5", 64, after=net.add("sum", first, last) if skip else last)
    stack = Stack("in turn", overlap=False, sends="rendezvous")
    array = Array(
        *("cores", "", Group(((device(10**7), 3),))),
        topology=Topology("fully_connected"),
        stack=stack,
    )
    execution, network = deployed(array), net.build()
    planned = execution.planned(array)
    plan = planned_in_stages(
        *("data_parallel", network, planned, 32, Staging(3, 8), [0, 2, 4]), places_of(planned, 3)
    )
    found = simulate(network, plan, array, execution)
    ways = {worker.rank_program.sends for worker in found.program.workers if worker.rank_program}
    assert ways == {sends}
