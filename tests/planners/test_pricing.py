"""Prices of plans that somebody made: the planners' own where they made them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Array, load_array
from planners import PLANNERS, TIME, TRAFFIC, Objective, Split
from planners.pricing import priced
from tests.strategies import arrays, networks, plans
from workloads import Network, load_network

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


def test_the_objective_decides() -> None:
    network, array = load_network("lenet"), ARRAYS[0]
    plan = PLANNERS["accpar"](network, array, 256, TIME)
    elements = priced(network, array, plan, TRAFFIC)
    assert elements.objective == "traffic"
    assert elements.root is not None
    assert plan.root is not None
    assert elements.root.cost > plan.root.cost
