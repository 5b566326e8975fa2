"""What a step holds, without its run: against the run's own table."""

from dataclasses import replace

import pytest
from hypothesis import given, settings

from hardware import Array, load_array
from planners import Plan, PlanError, load_planner
from simulator import DEPLOYED, PUBLISHED, Execution, memory_of, simulate
from tests.simulator.analysis.test_memory_timeline import ARRAY, CASES, staged
from tests.simulator.lowering.test_deployed import steps
from workloads import Network, load_network


@settings(max_examples=25, deadline=None)
@given(steps())
def test_of_one_stage(case: tuple[Network, Plan, Array, Execution]) -> None:
    assert memory_of(*case) == simulate(*case).memory


@pytest.mark.parametrize(("network", "stages", "micro", "schedule", "more"), CASES[::3], ids=str)
def test_of_pipelines(
    network: str, stages: int, micro: int, schedule: str, more: dict[str, object]
) -> None:
    net, plan = load_network(network), staged(network, stages, micro, schedule, **more)
    timeline = simulate(net, plan, ARRAY, DEPLOYED)
    assert memory_of(net, plan, ARRAY, DEPLOYED, timeline.batches) == timeline.memory


def test_what_does_not_fit_is_no_error_and_what_cannot_be_is_one() -> None:
    small = load_array("tpu-v3-8", ["devices.0.hbm.capacity=1 GiB"])
    net, strict = load_network("resnet18"), replace(DEPLOYED, strict_memory=True)
    plan = load_planner("data_parallel")(net, strict.planned(small), 512)
    assert not memory_of(net, plan, small, strict)[0].fits
    with pytest.raises(PlanError, match="--recompute selective"):
        memory_of(net, plan, small, replace(strict, recompute="selective"))
    published = load_array("accpar-homogeneous")
    plan = load_planner("owt")(net, published, 512)
    assert memory_of(net, plan, published, PUBLISHED) == ()
