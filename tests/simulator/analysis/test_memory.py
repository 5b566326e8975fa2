"""Memory over time, against the count before the run and against a run of two turns at once."""

import itertools
from dataclasses import replace

import pytest
from hypothesis import given, settings

from hardware import Array, load_array
from planners import Plan, load_planner
from simulator import DEPLOYED, Execution, Machine, program_of, simulate
from simulator.analysis.memory import memory_over_time, peak_bytes
from simulator.engine.operations import Holding, Task
from tests.simulator.engine.programs import compute, cores
from tests.simulator.lowering.test_deployed import steps
from workloads import Network, load_network


@settings(max_examples=40, deadline=None)
@given(steps())
def test_the_peak_of_a_run_is_what_was_counted_before_it(
    case: tuple[Network, Plan, Array, Execution],
) -> None:
    timeline = simulate(*case)
    peaks: dict[str, float] = {}
    for number, worker in enumerate(timeline.program.workers):
        name, peak = worker.device.name, peak_bytes(timeline, number)
        peaks[name] = max(peak, peaks.get(name, 0.0))
        held = sum(task.held[1] for task in worker.template)
        assert held == pytest.approx(0.0, abs=1e-6 * peak)  # everything is let go in the end
    assert peaks == pytest.approx({one.device: one.peak_bytes for one in timeline.memory})


def test_a_real_step_peaks_where_the_commands_say() -> None:
    network, array = load_network("resnet50"), load_array("tpu-v3-8")
    plan = load_planner("data_parallel")(network, DEPLOYED.planned(array), 256)
    timeline = simulate(network, plan, array, DEPLOYED)
    (memory,) = timeline.memory
    spans = list(memory_over_time(timeline, 0))
    assert max(most for _, _, most in spans) == memory.peak_bytes
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))


def test_two_turns_in_flight_hold_twice_as_much() -> None:
    """Forward keeps 10 B of 15; backward gives them back; turn 1 goes forward before that."""
    forward, backward = compute("forward", 1), compute("backward", 2)
    there, back = Holding(15.0, 10.0), Holding(3.0, -10.0)
    template = (Task(forward, held=there), Task(backward, (0,), held=back))
    program = cores(1, template=template, held_bytes=100.0)
    machine = Machine(program)
    for turn, operation in ((0, forward), (1, forward), (0, backward), (1, backward)):
        machine.compute(0, operation, turn)
    timeline = machine.run()
    assert list(memory_over_time(timeline, 0)) == [
        (0, 1, 115.0),
        (1, 2, 125.0),
        (2, 4, 123.0),
        (4, 6, 113.0),
    ]
    assert peak_bytes(timeline, 0) == 125.0


def test_published_workers_hold_nothing_that_is_known() -> None:
    network, array = load_network("lenet"), load_array("accpar-homogeneous")
    plan = load_planner("owt")(network, array, 512)
    assert peak_bytes(simulate(network, plan, array), 0) == 0.0


def test_strictness_is_asked_before_anything_runs() -> None:
    network, array = load_network("lenet"), load_array("tpu-v3-8")
    plan = load_planner("owt")(network, DEPLOYED.planned(array), 64)
    strict = program_of(network, plan, array, replace(DEPLOYED, strict_memory=True))
    assert strict.memory[0].fits
