"""What single layouts take at least: never more than simulated, and near enough to skip them."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from hardware import Array, load_array
from planners import PLANNERS, TIME
from planners.partition import II, I
from simulator import DEPLOYED, Execution, simulate
from simulator.planning import search as module
from simulator.planning.candidates import on_subset
from simulator.planning.given import layout_of, least_s
from simulator.planning.judge import Judge
from simulator.planning.placements import Piece, Placement, blank
from simulator.planning.search import search
from tests.simulator.planning.brute_force import all_layouts
from tests.simulator.planning.cases import BATCHES, EXECUTIONS, chains, like_cores, unlike_cores
from workloads import Network, load_network, partition_graph

SLOW = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
ROUNDING = 1 + 1e-9
NETWORK = load_network("alexnet")
MIXED = DEPLOYED.planned(load_array("accpar-mixed", [f"devices.{i}.count=16" for i in (0, 1)]))


@SLOW
@given(chains(), like_cores(), BATCHES, EXECUTIONS)
def test_no_layout_takes_less(
    network: Network, whole: Array, batch: int, execution: Execution
) -> None:
    array = execution.planned(whole)
    some = list(all_layouts(network, array, batch))
    plans = some[:: math.ceil(len(some) / 40)]
    least = least_s(network, plans, array, execution)
    for plan, one_s in zip(plans, least, strict=True):
        assert 0 < one_s <= simulate(network, plan, whole, execution).iteration_s * ROUNDING


@SLOW
@given(chains(2), unlike_cores(), BATCHES, EXECUTIONS)
def test_no_layout_of_one_kind_of_two_does(
    network: Network, whole: Array, batch: int, execution: Execution
) -> None:
    array = execution.planned(whole)
    plans = list(all_layouts(network, array, batch))
    least = least_s(network, plans, array, execution)
    for plan, one_s in zip(plans, least, strict=True):
        assert 0 < one_s <= simulate(network, plan, whole, execution).iteration_s * ROUNDING


@pytest.mark.parametrize("name", ["alexnet", "resnet18"])
def test_it_is_near(name: str) -> None:
    """What planners make of 64 of 256 cores waits for little that the chain leaves out."""
    network, ((device, _), *_) = load_network(name), MIXED.group.kinds
    for plan in on_subset(network, MIXED, 512, TIME, device, 64):
        (found_s,) = least_s(network, [plan], MIXED, DEPLOYED)
        taken_s = simulate(network, plan, MIXED, DEPLOYED).iteration_s
        assert 0.6 * taken_s < found_s <= taken_s


def test_the_layout_of_a_plan() -> None:
    graph = partition_graph(NETWORK)
    like = blank(NETWORK.name, [node.name for node in graph], 512, TIME)
    first, second = (device for device, _ in MIXED.group.kinds)
    types = ((II, I, I), *((I, I, II),) * (len(graph) - 1))
    plan = Placement((None, Piece(second, 8, types)), (0.0, 1.0)).plan(MIXED, like)
    layout = layout_of(plan, MIXED)
    assert layout is not None
    assert (layout[0].device, layout[0].levels, layout[1]) == (second, 3, types)
    alone = Placement((Piece(first, 1, ((),) * len(graph)), None), (1.0, 0.0)).plan(MIXED, like)
    layout = layout_of(alone, MIXED)
    assert layout is not None
    assert (layout[0].levels, layout[1]) == (0, ((),) * len(graph))
    both = PLANNERS["accpar"](NETWORK, MIXED, 512, TIME)
    assert layout_of(both, MIXED) is None
    assert least_s(NETWORK, [both, plan], MIXED, DEPLOYED)[0] == 0
    forward = replace(DEPLOYED, mode="inference")
    (forward_s,) = least_s(NETWORK, [plan], MIXED, forward)
    assert 0 < forward_s <= simulate(NETWORK, plan, MIXED, forward).iteration_s


def test_the_search_skips_what_is_surely_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else, and it finds the same without."""
    judges: list[Judge] = []

    def judge(*args: Any, **named: Any) -> Judge:
        judges.append(Judge(*args, **named))
        return judges[-1]

    monkeypatch.setattr(module, "Judge", judge)
    found = search(NETWORK, MIXED, 512, execution=DEPLOYED)
    near_s = 0.999 * judges[0].best_s
    for known_s in (0.0, near_s):
        monkeypatch.setattr(module, "least_s", lambda _, plans, *__, s=known_s: [s] * len(plans))
        assert search(NETWORK, MIXED, 512, execution=DEPLOYED).root == found.root
    few, *many = (judge.evaluations for judge in judges)
    assert few < many[0] - 20
    assert many[0] == many[1]
