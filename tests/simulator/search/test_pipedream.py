"""PipeDream's planner on arrays: every pipeline of small networks by the paper's formula."""

import itertools

import pytest

from hardware import load_array
from planners import PlanError, Staging
from simulator import DEPLOYED, PUBLISHED, Execution, simulate
from simulator.lowering.layer_times import layer_times
from simulator.search.stages import levels_of, pipedream
from workloads import load_network

BATCH, MINIBATCHES = 512, 16


def execution(model: Execution) -> Execution:
    return Execution(model.model, staging=Staging(micro_batches=MINIBATCHES))


def compositions(total: int, parts: int) -> list[tuple[int, ...]]:
    cuts = itertools.combinations(range(1, total), parts - 1)
    return [tuple(b - a for a, b in itertools.pairwise((0, *some, total))) for some in cuts]


@pytest.mark.parametrize("name", ["alexnet", "vgg11", "lenet"])
@pytest.mark.parametrize("devices", [2, 3, 4])
def test_every_pipeline_of_a_chain(name: str, devices: int) -> None:
    """The largest of compute / m, 2 (m-1)/m W / B / m, and 2 a / B of the cuts, least of all."""
    array = load_array("accpar-homogeneous", [f"devices.0.count={devices}"])
    network, model = load_network(name), execution(PUBLISHED)
    times = layer_times(network, array, BATCH // MINIBATCHES, PUBLISHED)
    rate = array.group.kinds[0][0].network_bytes_per_s
    best = float("inf")
    for stages in range(1, devices + 1):
        for firsts in itertools.combinations(range(1, len(times)), stages - 1):
            ends = (*firsts, len(times))
            for replicas in compositions(devices, stages):
                worst = 0.0
                for first, end, many in zip((0, *firsts), ends, replicas, strict=True):
                    mine = times[first:end]
                    work = sum(time.seconds for time in mine)
                    sums = 2 * (many - 1) / many * sum(t.gradient_bytes for t in mine) / rate
                    worst = max(worst, max(work, sums) / many)
                    if first:
                        worst = max(worst, 2 * times[first - 1].output_bytes / rate)
                best = min(best, worst)
    plan = pipedream(network, array, BATCH, execution=model)
    assert plan.pipeline is not None
    firsts, replicas = plan.pipeline.firsts, plan.pipeline.replicas
    ends = (*firsts[1:], len(times))
    ours = 0.0
    for first, end, many in zip(firsts, ends, replicas, strict=True):
        mine = times[first:end]
        work = sum(time.seconds for time in mine)
        sums = 2 * (many - 1) / many * sum(t.gradient_bytes for t in mine) / rate
        ours = max(ours, max(work, sums) / many)
        if first:
            ours = max(ours, 2 * times[first - 1].output_bytes / rate)
    assert ours == pytest.approx(best, rel=1e-9)
    assert sum(replicas) == devices


def test_it_runs_on_the_engine() -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=16"])
    model, network = execution(PUBLISHED), load_network("vgg16")
    plan = pipedream(network, array, BATCH, execution=model)
    assert plan.pipeline is not None
    assert plan.pipeline.replicas == (15, 1)  # as in the paper, on other devices
    timeline = simulate(network, plan, array, model)
    assert timeline.period is not None
    assert timeline.period.micro_batches % 15 == 0


def test_levels_of_boards_and_of_cores() -> None:
    boards = load_array("accpar-homogeneous", ["devices.0.count=8"])
    assert [level.count for level in levels_of(boards)] == [8]
    cores = DEPLOYED.planned(load_array("tpu-v3-pod", ["devices.0.count=4"]))
    assert [level.count for level in levels_of(cores)] == [8, 4]


def test_what_it_does_not_do() -> None:
    network = load_network("lenet")
    with pytest.raises(PlanError, match="devices of one kind"):
        pipedream(network, load_array("accpar-mixed"), BATCH)
    staged = Execution("published", staging=Staging(stages=2))
    array = load_array("accpar-homogeneous", ["devices.0.count=4"])
    with pytest.raises(PlanError, match="chooses stages"):
        pipedream(network, array, BATCH, execution=staged)
    with pytest.raises(PlanError, match="do not divide"):
        pipedream(network, array, 7)
