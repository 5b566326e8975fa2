"""In which orders of updates the search looks at plans, and which its own have."""

from dataclasses import replace

import pytest

from hardware import Array, load_array
from planners import PLANNERS, TIME, Plan
from planners.updates import UPDATE_ORDERS, Update
from simulator import DEPLOYED, PUBLISHED, Execution, simulate
from simulator.planning.given import is_filled
from simulator.planning.judge import Judge
from simulator.planning.search import search
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
