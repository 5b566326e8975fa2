"""Whether a plan is for a network: by the names of its layers, in their order."""

from __future__ import annotations

import pytest

from planners import Plan, PlanError
from planners.legality import check_nodes
from workloads import load_network, partition_graph

LENET = partition_graph(load_network("lenet"))
NAMES = ("conv1", "conv2", "fc1", "fc2")


def plan(network: str, *names: str) -> Plan:
    return Plan("any", network, 512, "time", names, None)


@pytest.mark.parametrize("network", ["lenet", "other"])
def test_a_plan_is_for_the_layers_that_it_names(network: str) -> None:
    check_nodes(plan(network, *NAMES), "lenet", LENET)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (plan("other"), "the plan is for 'other', not for 'lenet'"),
        (plan("lenet", "a", *NAMES[1:]), "layer 0 is 'a' in the plan, 'conv1' in the network"),
        (plan("lenet", *NAMES[:3]), "layer 3 is none in the plan, 'fc2' in the network"),
        (plan("lenet", *NAMES, "b"), "layer 4 is 'b' in the plan, none in the network"),
    ],
)
def test_the_first_layer_that_differs_is_named(other: Plan, words: str) -> None:
    with pytest.raises(PlanError) as error:
        check_nodes(other, "lenet", LENET)
    assert words in str(error.value)
