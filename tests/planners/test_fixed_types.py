"""A plan of given types costs what the planner that chose them says."""

import pytest

from hardware import load_array
from planners import OBJECTIVES, Objective, PartitionType, PlanError, load_planner
from planners.fixed_types import given
from workloads import load_network

ALEXNET = load_network("alexnet")


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=list(OBJECTIVES))
@pytest.mark.parametrize("planner", ["owt", "accpar", "model_parallel"])
def test_a_planners_own_types_give_its_own_plan(planner: str, objective: Objective) -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=16"])
    plan = load_planner(planner)(ALEXNET, array, 512, objective)
    types = [split.types for split in plan.levels() or []]
    assert given(ALEXNET, array, 512, types, objective).root == plan.root


def test_types_that_do_not_fit_are_refused() -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=4"])
    level = [PartitionType.I] * 8
    for levels in ([level], [level] * 3, [level, level[1:]]):
        with pytest.raises(PlanError, match="expected 2 levels of 8 types"):
            given(ALEXNET, array, 512, levels)
    with pytest.raises(PlanError, match="devices of one kind"):
        given(ALEXNET, load_array("accpar-mixed"), 512, [level] * 8)


def test_a_single_device_has_no_levels() -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=1"])
    assert given(ALEXNET, array, 512, []).root is None
