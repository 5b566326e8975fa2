"""Memory by class over time: against the total, the peak's table, and counts by hand."""

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings

from hardware import Array
from planners import Plan
from planners.order import Phase
from simulator import Execution, Machine, Timeline, simulate
from simulator.analysis.memory import at_rest, filled, fullest, memory_over_time
from simulator.engine.occupancy import CLASSES
from simulator.engine.operations import Holding, Task
from tests.simulator.analysis.test_held import CASES, ran, staged
from tests.simulator.engine.programs import compute, cores
from tests.simulator.lowering.test_deployed import steps
from workloads import Network


def checked(timeline: Timeline) -> None:
    """At every moment the classes are all there is; at the peak they are the table's."""
    tops: dict[float, tuple[float, ...]] = {}
    for number, worker in enumerate(timeline.program.workers):
        moments = list(filled(timeline, number))
        assert [one[:3] for one in moments] == list(memory_over_time(timeline, number))
        for one in moments:
            assert len(one.by_class) == len(CLASSES)
            assert min(one.by_class) >= 0
            assert math.fsum(one.by_class) == pytest.approx(one.most, rel=1e-9, abs=1e-3)
        assert math.fsum(at_rest(timeline, number)) == pytest.approx(worker.held_bytes)
        if moments:
            top = max(moments, key=lambda one: one.most)
            tops[top.most] = top.by_class
    for full in timeline.memory:
        if full.operator:
            nearest = min(tops, key=lambda most: abs(most - full.peak_bytes))
            assert nearest == pytest.approx(full.peak_bytes, rel=1e-12)
            assert tops[nearest] == pytest.approx(full.by_class, rel=1e-6, abs=1e-2)


@settings(max_examples=40, deadline=None)
@given(steps())
def test_of_one_stage(case: tuple[Network, Plan, Array, Execution]) -> None:
    timeline = simulate(*case)
    checked(timeline)
    number = fullest(timeline)
    (device,) = {timeline.program.workers[number].device.name}
    full = max(timeline.memory, key=lambda one: one.peak_bytes / one.capacity_bytes)
    assert device == full.device
    most = max((one.most for one in filled(timeline, number)), default=None)
    assert most is None or most == pytest.approx(full.peak_bytes, rel=1e-12)


@pytest.mark.parametrize(("network", "stages", "micro", "schedule", "more"), CASES, ids=str)
def test_of_pipelines(
    network: str, stages: int, micro: int, schedule: str, more: dict[str, Any]
) -> None:
    timeline = ran(network, staged(network, stages, micro, schedule, **more))
    checked(timeline)
    full = max(timeline.memory, key=lambda one: one.peak_bytes / one.capacity_bytes)
    number = fullest(timeline)
    found = max(one.most for one in filled(timeline, number))
    assert found == pytest.approx(full.peak_bytes, rel=1e-12)


def series(timeline: Timeline, number: int) -> list[dict[str, float]]:
    return [dict(zip(CLASSES, one.by_class, strict=True)) for one in filled(timeline, number)]


def test_weights_are_always_there_and_gradients_until_the_update() -> None:
    timeline = ran("vgg16", staged("vgg16", 4, 8, "1f1b"))
    for number, worker in enumerate(timeline.program.workers):
        found = series(timeline, number)
        assert {one["weights"] for one in found} == {worker.weight_bytes}
        assert len({one["optimizer"] for one in found}) == 1
        operations = [
            timeline.operations[i].phase
            for i, r in zip(timeline.columns.operation, timeline.columns.resource, strict=True)
            if r == timeline.stations.workers[number].cores[0]
        ]
        ends = operations.index(Phase.UPDATE)
        before = [one["gradients"] for one in found[:ends]]
        assert all(b >= a * (1 - 1e-12) for a, b in pairwise(before))
        # each parameter's once, whatever the number of micro-batches
        once = math.fsum(task.once for task in worker.template)
        assert before[-1] == pytest.approx(once, rel=1e-9)
        assert found[0]["gradients"] == 0


def test_gpipe_s_activations_grow_by_as_much_with_each_micro_batch() -> None:
    timeline = ran("vgg16", staged("vgg16", 4, 6, "gpipe"))
    worker = timeline.program.workers[0]
    once = sum(task.held.more for task in worker.template if task.operation.phase is Phase.FORWARD)
    found = series(timeline, 0)
    forward = sum(
        task.operation.phase is Phase.FORWARD and not task.parties and not task.receives
        for task in worker.template
    )
    begins = [found[turn * forward]["activations"] for turn in range(6)]
    each = [b - a for a, b in pairwise(begins)]
    assert each == pytest.approx([once] * 5, rel=1e-9)
    assert {one["logits"] for one in found} == {0.0}  # what the next stage reads is none


def test_stages_that_compute_again_keep_their_inputs_alone() -> None:
    timeline = ran("resnet18", staged("resnet18", 2, 4, "gpipe", recompute="all"))
    for number, worker in enumerate(timeline.program.workers):
        assert worker.itinerary is not None
        ((stage, inputs),) = worker.itinerary.inputs.items()
        forward = sum(
            task.operation.phase is Phase.FORWARD and not task.parties and not task.receives
            for task in worker.template
        )
        found = series(timeline, number)
        for turn in range(1, 4):
            first, nothing = found[turn * forward], found[0]
            kept = first["activations"] - nothing["activations"]
            assert kept == pytest.approx(turn * inputs), (stage, turn)


def test_each_version_of_the_weights_counts_to_them() -> None:
    timeline = ran("vgg16", staged("vgg16", 4, 1, "pipedream", batches=20))
    worker = timeline.program.workers[0]
    most = max(one["weights"] for one in series(timeline, 0))
    assert most == pytest.approx(4 * worker.weight_bytes)
    assert len({one["optimizer"] for one in series(timeline, 0)}) == 1


def test_a_program_that_says_nothing_of_its_memory_has_no_classes() -> None:
    forward = compute("forward", 1)
    template = (Task(forward, held=Holding(15.0, 10.0)),)
    machine = Machine(cores(1, template=template, held_bytes=100.0))
    machine.compute(0, forward, 0)
    (one,) = filled(machine.run(), 0)
    assert one == (0, 1, 115.0, ())
