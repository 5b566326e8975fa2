"""A plan of given types costs what the planner that chose them says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Array, load_array
from planners import (
    OBJECTIVES,
    PLANNERS,
    TIME,
    TRAFFIC,
    Objective,
    PartitionType,
    PlanError,
    Split,
    load_planner,
)
from planners.hierarchy.fixed_types import plan_of_types, priced
from tests.strategies import arrays, networks, plans
from workloads import Network, load_network

ALEXNET = load_network("alexnet")


@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=list(OBJECTIVES))
@pytest.mark.parametrize("planner", ["owt", "accpar", "model_parallel"])
def test_a_planners_own_types_give_its_own_plan(planner: str, objective: Objective) -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=16"])
    plan = load_planner(planner)(ALEXNET, array, 512, objective)
    types = [split.types for split in plan.levels() or []]
    assert plan_of_types(ALEXNET, array, 512, types, objective).root == plan.root


def test_types_that_do_not_fit_are_refused() -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=4"])
    level = [PartitionType.I] * 8
    for levels in ([level], [level] * 3, [level, level[1:]]):
        with pytest.raises(PlanError, match="expected 2 levels of 8 types"):
            plan_of_types(ALEXNET, array, 512, levels)


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
    plan = plan_of_types(ALEXNET, array, 512, types, objective)
    assert plan.root == load_planner("data_parallel")(ALEXNET, array, 512, objective).root
    with pytest.raises(PlanError, match=f"expected {levels} levels"):
        plan_of_types(ALEXNET, array, 512, types[1:])


ARRAYS = [
    load_array("accpar-mixed", ["devices.0.count=4", "devices.1.count=4"]),
    load_array("accpar-mixed", ["devices.0.count=3", "devices.1.count=2"]),
    load_array("accpar-homogeneous", ["devices.0.count=8"]),
]


@pytest.mark.parametrize("objective", [TIME, TRAFFIC], ids=str)
@pytest.mark.parametrize("array", ARRAYS, ids=["mixed", "odd", "alike"])
@pytest.mark.parametrize("name", ["lenet", "resnet18", "gpt2:seq=8"])
def test_a_planners_plan_costs_what_it_says(name: str, array: Array, objective: Objective) -> None:
    network = load_network(name)
    for planner in ("data_parallel", "owt", "accpar"):
        plan = PLANNERS[planner](network, array, 256, objective)
        again = priced(network, array, plan, objective)
        costs = [split.cost for split in plan.splits()]
        assert [split.cost for split in again.splits()] == pytest.approx(costs, rel=1e-9)
        assert again.nodes == plan.nodes


@given(st.data(), networks(4), arrays(3))
def test_any_plan_keeps_its_splits(data: st.DataObject, network: Network, array: Array) -> None:
    plan = data.draw(plans(network, array, 12))
    again = priced(network, array, plan, TIME)

    def same(one: Split | None, other: Split | None) -> bool:
        if one is None or other is None:
            return one is other
        pairs = zip(one.halves, other.halves, strict=True)
        return one.partitions == other.partitions and all(same(*pair) for pair in pairs)

    assert same(plan.root, again.root)
    assert all(split.cost >= 0 for split in again.splits())
