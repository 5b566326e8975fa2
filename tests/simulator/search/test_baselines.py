"""Data parallelism with the best share, and on the best subset."""

from dataclasses import replace

import pytest

from hardware import load_array
from planners import PLANNERS, TIME, PlanError, load_planner
from planners.partition import I
from simulator import DEPLOYED, PUBLISHED, Execution, simulate
from simulator.search.candidates import alone, lifted, powers_of_two, shared
from simulator.search.shares import best_share, best_subset
from workloads import load_network

NETWORK = load_network("alexnet")
MIXED = load_array("tpu-mixed", ["devices.0.count=1", "devices.1.count=1"])


@pytest.mark.parametrize("execution", [PUBLISHED, DEPLOYED], ids=["published", "deployed"])
def test_no_share_of_a_row_is_better(execution: Execution) -> None:
    array = execution.planned(MIXED)
    plan = best_share(NETWORK, array, 4096, execution=execution)
    assert {kind for split in plan.splits() for kind in split.types} == {I}
    ours = simulate(NETWORK, plan, MIXED, execution).iteration_s
    even = PLANNERS["data_parallel"](NETWORK, array, 4096, TIME)
    for part in range(1, 10):
        other = replace(even, root=shared(even.root, array.group, (part, 10 - part)))
        assert ours <= simulate(NETWORK, other, MIXED, execution).iteration_s * 1.03


@pytest.mark.parametrize("execution", [PUBLISHED, DEPLOYED], ids=["published", "deployed"])
def test_no_subset_is_better(execution: Execution) -> None:
    array = execution.planned(MIXED)
    plan = best_subset(NETWORK, array, 64, execution=execution)
    ours = simulate(NETWORK, plan, MIXED, execution).iteration_s
    even = PLANNERS["data_parallel"](NETWORK, array, 64, TIME)
    assert ours <= simulate(NETWORK, even, MIXED, execution).iteration_s
    for device, size in powers_of_two(array):
        part = alone(array, device, size)
        assert part is not None
        some = PLANNERS["data_parallel"](NETWORK, part, 64, TIME)
        root = lifted(some.root, array.group, device, size, len(some.nodes))
        assert ours <= simulate(NETWORK, replace(some, root=root), MIXED, execution).iteration_s


def test_they_have_names() -> None:
    one = load_array("accpar-homogeneous", ["devices.0.count=1"])
    for name in ("best_share", "best_subset"):
        plan = load_planner(name)(NETWORK, one, 64)
        assert plan.planner == name
        assert plan.root is None


def test_shares_far_above_a_step_are_not_improved() -> None:
    plan = best_share(NETWORK, DEPLOYED.planned(MIXED), 4096)
    taken_s = simulate(NETWORK, plan, MIXED, DEPLOYED).iteration_s
    with pytest.raises(PlanError, match="best_share"):
        best_share(NETWORK, DEPLOYED.planned(MIXED), 4096, enough_s=taken_s / 2)
    again = best_share(NETWORK, DEPLOYED.planned(MIXED), 4096, enough_s=2 * taken_s)
    assert simulate(NETWORK, again, MIXED, DEPLOYED).iteration_s == taken_s
