"""Updates as they are asked for: as the plan is, of all layers, or as is best."""

import itertools
from dataclasses import replace

import pytest

from hardware import Array, load_array
from planners import Plan, PlanError, Update, load_planner
from planners.plan.updates import sharded, updates_of
from simulator import DEPLOYED, PUBLISHED, Execution, simulate
from simulator.search.search import search
from simulator.search.updates import with_updates
from workloads import Builder, Network, load_network

REPLICATED, SHARDED, *_ = Update
BOARD = load_array("tpu-v3-8")
MIXED = load_array("accpar-mixed", ["devices.0.count=2", "devices.1.count=1"])
MODELS = pytest.mark.parametrize("execution", [PUBLISHED, DEPLOYED], ids=str)


def planned(name: str, planner: str, array: Array, execution: Execution) -> tuple[Network, Plan]:
    network = load_network(name)
    return network, load_planner(planner)(network, execution.planned(array), 64)


@MODELS
def test_all_none_or_as_the_plan_is(execution: Execution) -> None:
    network, plan = planned("alexnet", "accpar", MIXED, execution)

    def asked(plan: Plan, update: str) -> Plan:
        return with_updates(network, plan, MIXED, replace(execution, update=update))

    shared = asked(plan, "sharded")
    assert sharded(shared.updates) == {*range(len(plan.nodes))}
    assert (asked(plan, ""), asked(plan, "replicated")) == (plan, plan)
    assert (asked(shared, ""), asked(shared, "replicated")) == (shared, plan)
    assert asked(shared, "auto") == asked(plan, "auto")


@MODELS
@pytest.mark.parametrize("array", [BOARD, MIXED], ids=["board", "mixed"])
@pytest.mark.parametrize("planner", ["data_parallel", "accpar"])
@pytest.mark.parametrize("name", ["lenet", "alexnet", "resnet18"])
def test_auto_is_never_slower_than_either(
    name: str, planner: str, array: Array, execution: Execution
) -> None:
    network, plan = planned(name, planner, array, execution)
    seconds = {}
    for update in ("auto", "replicated", "sharded"):
        asked = replace(execution, update=update)
        seconds[update] = simulate(
            network, with_updates(network, plan, array, asked), array, asked
        ).iteration_s
    assert seconds["auto"] <= min(seconds.values())


@MODELS
def test_auto_against_every_choice_of_lenet(execution: Execution) -> None:
    """Of 16 ways to update four layers none is 6 % faster than what is chosen."""
    for planner in ("data_parallel", "accpar"):
        network, plan = planned("lenet", planner, BOARD, execution)
        chosen = with_updates(network, plan, BOARD, replace(execution, update="auto"))
        every = [
            simulate(
                network, replace(plan, updates=updates_of(updates)), BOARD, execution
            ).iteration_s
            for updates in itertools.product((REPLICATED, SHARDED), repeat=len(plan.nodes))
        ]
        assert simulate(network, chosen, BOARD, execution).iteration_s <= 1.06 * min(every)


def test_what_has_no_updates_of_its_own_is_refused() -> None:
    network, plan = planned("lenet", "accpar", BOARD, DEPLOYED)
    inference = replace(DEPLOYED, mode="inference", update="auto")
    with pytest.raises(PlanError, match=r"--update auto \(--zero\): inference updates no weights"):
        with_updates(network, plan, BOARD, inference)


@pytest.mark.parametrize("update", ["sharded", "auto"])
@MODELS
def test_search_judges_plans_with_their_updates(execution: Execution, update: str) -> None:
    """No planner with the same choice of updates is faster, on all devices or on any subset."""
    network, asked = load_network("lenet"), replace(execution, update=update)
    array = asked.planned(MIXED)
    found = search(network, array, 64, execution=asked)
    best_s = simulate(network, found, MIXED, asked).iteration_s
    assert with_updates(network, found, MIXED, asked) == found
    for planner in ("data_parallel", "owt", "hypar", "accpar", "best_share", "best_subset"):
        told = {"execution": asked} if planner.startswith("best") else {}
        plan = load_planner(planner)(network, array, 64, **told)
        own = with_updates(network, plan, MIXED, asked)
        assert best_s <= simulate(network, own, MIXED, asked).iteration_s


def test_joins_gather_no_weights_among_nodes_in_tiers() -> None:
    """They have none; the collective of nothing was a division by zero."""
    net = Builder("join", 4, 8, 8)
    net.conv("conv0", 8, 3, 1, 1)
    net.conv("conv1", 8, 3, 1, 1)
    net.add("add", "conv0", "conv1")
    network, array = net.build(), load_array("a100-cluster", ["devices.0.count=2"])
    execution = replace(DEPLOYED, update="auto")
    plan = load_planner("data_parallel")(network, execution.planned(array), 64)
    chosen = with_updates(network, plan, array, execution)
    steps = [simulate(network, one, array, DEPLOYED).iteration_s for one in (chosen, plan)]
    assert steps[0] <= steps[1]
