"""In which orders of updates the search looks at plans, and which its own have."""

from dataclasses import replace

import pytest

from hardware import Array, load_array
from planners import PLANNERS, TIME, Plan
from planners.plan.updates import UPDATE_ORDERS, Update
from simulator import DEPLOYED, PUBLISHED, Execution, simulate
from simulator.search.judge import Judge
from simulator.search.search import search
from workloads import Network, load_network

LENET, BOARD = load_network("lenet"), DEPLOYED.planned(load_array("tpu-v3-8"))
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
    Judge(network, array, DEPLOYED, arrival=True).seconds(plan)
    return seen


def plan_of(network: Network, array: Array, batch: int = 512) -> Plan:
    return PLANNERS["data_parallel"](network, array, batch, TIME)


def test_updates_are_as_gradients_arrive(monkeypatch: pytest.MonkeyPatch) -> None:
    assert looked_at(monkeypatch, LENET, plan_of(LENET, BOARD), BOARD) == ["arrival"]


def test_what_says_it_or_is_in_parts_is_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = plan_of(LENET, MIXED)
    for order in UPDATE_ORDERS:
        assert looked_at(monkeypatch, LENET, replace(plan, update_order=order), MIXED) == [order]
        monkeypatch.undo()
    parts = replace(plan, updates=(Update.SHARDED,) * len(plan.nodes))
    assert looked_at(monkeypatch, LENET, parts, MIXED) == [""]


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
