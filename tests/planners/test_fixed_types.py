"""A plan of given types costs what the planner that chose them says."""

import pytest

from hardware import load_array
from planners import OBJECTIVES, Objective, PartitionType, PlanError, load_planner
from planners.fixed_types import given
from simulator import DEPLOYED, PUBLISHED, simulate
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
    with pytest.raises(PlanError, match=r"shares of 1 levels; give those of all 2"):
        given(ALEXNET, array, 512, [level] * 2, shares=[0.5])
    with pytest.raises(PlanError, match="and balanced ones"):
        given(ALEXNET, array, 512, [level] * 2, shares=[0.5, 0.5], balance=True)
    with pytest.raises(PlanError, match="7 shares for 8 types"):
        given(ALEXNET, array, 512, [level] * 2, shares=[0.5, [0.5] * 7])
    with pytest.raises(PlanError, match=r"has share 1\.5"):
        given(ALEXNET, array, 512, [level] * 2, shares=[0.5, 1.5])


def test_a_single_device_has_no_levels() -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=1"])
    assert given(ALEXNET, array, 512, []).root is None


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=list(OBJECTIVES))
@pytest.mark.parametrize("counts", [(4, 4), (3, 2), (1, 4)])
def test_two_kinds_with_data_parallelisms_types(
    counts: tuple[int, int], objective: Objective
) -> None:
    """Shares by numbers of accelerators, however deep either kind is."""
    settings = [f"devices.{i}.count={n}" for i, n in enumerate(counts)]
    array = load_array("accpar-mixed", settings)
    levels = 1 + max((n - 1).bit_length() for n in counts)
    types = [[PartitionType.I] * 8] * levels
    plan = given(ALEXNET, array, 512, types, objective)
    assert plan.root == load_planner("data_parallel")(ALEXNET, array, 512, objective).root
    with pytest.raises(PlanError, match=f"expected {levels} levels"):
        given(ALEXNET, array, 512, types[1:])


def test_two_kinds_with_accpars_types_and_balanced_shares() -> None:
    """One board of each kind: AccPar's only split, types and shares."""
    array = load_array("accpar-mixed", ["devices.0.count=1", "devices.1.count=1"])
    plan = load_planner("accpar")(ALEXNET, array, 512)
    assert plan.root is not None
    own = given(ALEXNET, array, 512, [plan.root.types], balance=True)
    assert own.root is not None
    assert own.root.cost == pytest.approx(plan.root.cost)
    assert [p.share for p in own.root.partitions] == pytest.approx(
        [p.share for p in plan.root.partitions]
    )


def test_shares_as_they_are_given() -> None:
    """One number a level, or one for each layer; priced by the objective, and it runs."""
    array = load_array("accpar-mixed", ["devices.0.count=2", "devices.1.count=2"])
    types = [[PartitionType.I] * 8] * 2
    each = [0.3, 0.25, 0.2, 0.25, 0.3, 0.4, 0.5, 0.25]
    plan = given(ALEXNET, array, 512, types, shares=[each, 0.5])
    assert plan.root is not None
    assert [p.share for p in plan.root.partitions] == each
    assert {p.share for split in plan.root.halves if split for p in split.partitions} == {0.5}
    assert plan.root.cost > 0
    halves = given(ALEXNET, array, 512, types, shares=[0.5, 0.5])
    assert halves.root == given(ALEXNET, array, 512, types).root
    for execution in (PUBLISHED, DEPLOYED):
        deeper = given(
            ALEXNET,
            planned := execution.planned(array),
            512,
            [types[0]] * (1 + (planned.group.size // 2 - 1).bit_length()),
            shares=[each] + [0.5] * (planned.group.size // 2 - 1).bit_length(),
        )
        assert simulate(ALEXNET, deeper, array, execution).iteration_s > 0
