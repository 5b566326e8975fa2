"""In which orders of updates the search looks at plans, and which its own have."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Array, load_array
from planners import BASELINES, PLANNERS, TIME, Plan
from planners.plan.updates import UPDATE_ORDERS, Update
from simulator import DEPLOYED, PUBLISHED, Execution, simulate
from simulator.search.judge import Judge
from simulator.search.layouts import is_filled
from simulator.search.search import search
from tests.simulator.search.cases import chains, like_cores, unlike_cores
from workloads import Network, load_network

LENET, BOARD = load_network("lenet"), DEPLOYED.planned(load_array("tpu-v3-8"))
TIED = load_network("gpt2:layers=1:seq=8")
"""Its table of words is its output head, too."""
MIXED = DEPLOYED.planned(load_array("accpar-mixed", ["devices.0.count=1", "devices.1.count=1"]))


def looked_at(
    monkeypatch: pytest.MonkeyPatch, network: Network, plan: Plan, array: Array
) -> list[str]:
    seen: list[str] = []
    real = Judge._simulated

    def simulated(self: Judge, plan: Plan) -> float:
        seen.append(plan.update_order)
        return real(self, plan)

    monkeypatch.setattr(Judge, "_simulated", simulated)
    Judge(network, array, DEPLOYED, orders=True).seconds(plan)
    return seen


def plan_of(network: Network, array: Array, batch: int = 512) -> Plan:
    return PLANNERS["data_parallel"](network, array, batch, TIME)


def test_alike_cores_with_a_part_of_every_layer_have_one_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert looked_at(monkeypatch, LENET, plan_of(LENET, BOARD), BOARD) == ["arrival"]


def test_others_have_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four samples on eight cores; two kinds; weights that are used twice."""
    few = plan_of(LENET, BOARD, 4)
    assert not is_filled(LENET, few, BOARD)
    for network, plan, array in (
        (LENET, few, BOARD),
        (LENET, plan_of(LENET, MIXED), MIXED),
        (TIED, plan_of(TIED, BOARD), BOARD),
    ):
        assert looked_at(monkeypatch, network, plan, array) == ["arrival", ""]
        monkeypatch.undo()


def test_what_says_it_or_is_in_parts_is_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(LENET, MIXED)
    for order in UPDATE_ORDERS:
        assert looked_at(monkeypatch, LENET, replace(plan, update_order=order), MIXED) == [order]
        monkeypatch.undo()
    parts = replace(plan, updates=(Update.SHARDED,) * len(plan.nodes))
    assert looked_at(monkeypatch, LENET, parts, MIXED) == [""]


@given(
    chains(3), st.one_of(like_cores(4), unlike_cores()), st.sampled_from((1, 3, 8)), st.booleans()
)
def test_no_order_is_better_by_more_than_updates_take(
    network: Network, whole: Array, batch: int, exact: bool
) -> None:
    execution = Execution("deployed", whole_shards=not exact)
    array = execution.planned(whole)
    for planner in (*PLANNERS.values(), *BASELINES.values()):
        plan = planner(network, array, batch, TIME)
        least_s, most_s = sorted(
            simulate(network, replace(plan, update_order=one), array, execution).iteration_s
            for one in UPDATE_ORDERS
        )
        updates_s = Judge(network, array, execution, orders=True)._updates_s(plan)
        assert most_s - least_s <= updates_s + 1e-12


def test_what_no_order_makes_the_best_is_seen_in_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is twice as far from the best as updates take."""
    plan, seen = plan_of(LENET, MIXED), list[str]()
    judge = Judge(LENET, MIXED, DEPLOYED, orders=True)
    taken_s, updates_s = judge.seconds(plan), judge._updates_s(plan)
    judge.best_s = taken_s - 2 * updates_s
    simulated = Judge._simulated

    def counted(self: Judge, plan: Plan) -> float:
        seen.append(plan.update_order)
        return simulated(self, plan)

    monkeypatch.setattr(Judge, "_simulated", counted)
    assert judge._better(plan) >= judge.best_s + updates_s
    assert seen == ["arrival"]


def test_the_better_order_is_kept() -> None:
    """And what is found is what it takes."""
    network = load_network("alexnet")
    plan = plan_of(network, MIXED)
    judge = Judge(network, MIXED, DEPLOYED, orders=True)
    taken = [
        simulate(network, replace(plan, update_order=order), MIXED, DEPLOYED).iteration_s
        for order in UPDATE_ORDERS
    ]
    assert judge.seconds(plan) == judge.best_s == min(taken) < max(taken)
    assert judge.best == replace(plan, update_order="arrival")


@pytest.mark.parametrize(
    ("execution", "order"),
    [
        (DEPLOYED, "arrival"),
        (replace(DEPLOYED, update_order="layers"), ""),
        (replace(DEPLOYED, mode="inference"), ""),
        (PUBLISHED, ""),
    ],
)
def test_its_own_plans_say_it_where_it_is_free(execution: Execution, order: str) -> None:
    array = execution.planned(load_array("tpu-v3-8"))
    assert search(LENET, array, 512, execution=execution).update_order == order


def test_it_is_worth_something() -> None:
    layers = replace(DEPLOYED, update_order="layers")
    free_s, asked_s = (
        simulate(LENET, search(LENET, BOARD, 512, execution=one), BOARD, one).iteration_s
        for one in (DEPLOYED, layers)
    )
    assert free_s < 0.99 * asked_s
