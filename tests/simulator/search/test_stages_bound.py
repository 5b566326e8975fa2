"""What no schedule of the same stages undercuts: by hand, and below every schedule's step."""

from __future__ import annotations

from dataclasses import replace

import pytest

import accelarray
from hardware import Array, Device, Group
from hardware.topology import Topology
from planners.pipeline.staging import Staging
from simulator import DEPLOYED, PICOSECONDS, program_of, run, simulate
from simulator.engine.timeline import Period
from simulator.search.stages import stages_bound
from tests.simulator.lowering.pipelines_by_hand import Times, pipeline_of, program
from tests.simulator.lowering.random_pipelines import longer, random_case
from tests.simulator.lowering.test_pipelines_deployed import staged
from workloads import load_network

FLUSHING = ("gpipe", "1f1b", "zero-bubble")


def bound_ps(schedule: str, stages: int, micro_batches: int, send: int, times: Times) -> int:
    pipeline = pipeline_of(schedule, stages, micro_batches, [1] * stages)
    timeline = run(program(pipeline, [times] * stages, [send] * (stages - 1)))
    found = stages_bound(timeline)
    assert found is not None
    ps = round(found.seconds * PICOSECONDS)
    assert ps <= timeline.makespan_ps
    return ps


@pytest.mark.parametrize("schedule", FLUSHING)
def test_the_last_of_equal_stages_has_its_work_and_the_way_to_it(schedule: str) -> None:
    """Eight micro-batches of 2 and 4 (3 and 1) on the third stage, which begins at 2 * 2."""
    assert bound_ps(schedule, 3, 8, 0, Times(2, 3, 1)) == 8 * 6 + 4
    assert bound_ps(schedule, 3, 8, 5, Times(2, 3, 1)) == 8 * 6 + 4 + 2 * 5


def test_one_stage_is_its_own_work() -> None:
    assert bound_ps("1f1b", 1, 40, 0, Times(3, 2, 1)) == 40 * 6


def test_what_is_not_flushed_has_no_way_in_it() -> None:
    """A step in the long run takes as long as the slowest accelerator's work, or longer."""
    pipeline = pipeline_of("pipedream", 3, 1, [1, 1, 1])
    times = [Times(2, 3, 1), Times(4, 4, 4), Times(1, 1, 1)]
    timeline = run(program(pipeline, times, [1, 1], batches=40))
    long_run = replace(timeline, batch_ps=12, batches=40, period=Period(12, 1, 0))
    found = stages_bound(long_run)
    assert found is not None
    assert found.seconds * PICOSECONDS == pytest.approx(12)
    assert stages_bound(replace(long_run, period=None)) is None


@pytest.mark.parametrize("seeds", [range(k, k + 20) for k in range(0, 80, 20)], ids=str)
@pytest.mark.parametrize("times", [1, pytest.param(6, marks=pytest.mark.slow)])
def test_no_step_is_below(seeds: range, times: int) -> None:
    gaps = []
    for seed in seeds:
        case = longer(random_case(seed), times)
        found = simulate(case.network, case.plan, case.array, case.execution)
        bound = stages_bound(found)
        if bound is None:
            assert found.batch_ps is not None
            assert found.period is None
            continue
        assert bound.seconds <= found.iteration_s * (1 + 1e-12), seed
        gaps.append(bound.gap(found.iteration_s))
    assert min(gaps) < 0.2, "it is near for some"


@pytest.mark.parametrize("topology", ["ring", "torus", "switch"])
@pytest.mark.parametrize("overlap", [True, False])
def test_on_wires_all_schedules_are_above_one_bound(topology: str, overlap: bool) -> None:
    board = Device("board", 1, 1, 1e13, 1e12, 1e11, 1e10, network_latency_s=1e-6)
    array = Array("eight", "", Group(((board, 8),)), topology=Topology(topology))
    execution, network = replace(DEPLOYED, overlap=overlap), load_network("alexnet")
    bounds, steps = set(), []
    for schedule in FLUSHING:
        plan = staged("alexnet", "data_parallel", array, execution, Staging(4, 16, schedule))
        timeline = run(program_of(network, plan, array, execution))
        found = stages_bound(timeline)
        assert found is not None
        bounds.add(round(found.seconds, 11))
        steps.append(timeline.iteration_s)
    assert len(bounds) == 1, "whatever the schedule"
    assert max(bounds) <= min(steps)


@pytest.mark.parametrize("micro_batch", [1, 2])
@pytest.mark.parametrize("zero", [1, 3])
def test_what_is_gathered_before_the_first_product_counts_once(zero: int, micro_batch: int) -> None:
    """Without overlap a worker's own exchanges are all of its wait: the bound is the step."""
    step = accelarray.simulate(
        "llama3-8b:layers=2:seq=64:vocab=512",
        array="dgx-h100",
        parallel="dp=8",
        batch=16,
        micro_batch=micro_batch,
        zero=zero,
        overlap="none",
    ).to_dict()
    if step["lower_bound_s"] is not None:
        assert step["lower_bound_s"] <= step["iteration_s"]
    assert (step["lower_bound_s"] is None) == (micro_batch == 2)


@pytest.mark.parametrize("stage_layers", ["2;2;2;2", "1;1;2;4"])
def test_new_weights_come_while_stages_before_compute(stage_layers: str) -> None:
    """The last stage gathers most, and has done so when the first micro-batch reaches it."""
    step = accelarray.simulate(
        "gpt2:layers=8:seq=1024:tied=no",
        array="dgx-a100",
        set={"topology.levels.0.bandwidth": "10 GB/s"},
        parallel="pp=4",
        stage_layers=stage_layers,
        batch=4,
        micro_batch=2,
        zero=1,
        overlap="none",
    ).to_dict()
    assert 0.5 * step["iteration_s"] < step["lower_bound_s"] <= step["iteration_s"]
