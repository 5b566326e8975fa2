"""Whether a plan is for a network: by its layers' names, in their order, and their types."""

from __future__ import annotations

import pytest

from planners import Partition, Plan, PlanError, Split
from planners.legality import check_nodes, check_types
from planners.partition import IV, Communication, I, PartitionType
from workloads import Builder, Network, load_network, partition_graph

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


def split_alike(
    network: Network,
    *levels: tuple[PartitionType, float],
    table: Communication = Communication.PRINTED,
) -> Plan:
    """A plan with one type and share of all layers at each level, and one entry for both halves."""
    graph, below = partition_graph(network), None
    for type_, share in reversed(levels):
        below = Split((Partition(type_, share),) * len(graph), 0.0, (below,))
    names = tuple(node.name for node in graph)
    return Plan("mine", network.name, 4, "time", names, below, table)


def grouped() -> Network:
    net = Builder("grouped", 8, 4, 4)
    net.conv("conv", 8, 3, padding=1, groups=4)
    return net.build()


def test_both_sides_of_an_uneven_split_can_have_what_is_below() -> None:
    """Of four groups one side has three, which can be parted again, and the other one has one."""
    graph = partition_graph(grouped())
    check_types(split_alike(grouped(), (IV, 0.5), (IV, 0.5)), graph)
    for share in (0.25, 0.75):
        with pytest.raises(PlanError, match=r"'conv' .* by type IV at level 1"):
            check_types(split_alike(grouped(), (IV, share), (IV, 0.5)), graph)


def test_the_plotted_table_has_neither_groups_nor_joins() -> None:
    plotted = Communication.PLOTTED
    with pytest.raises(PlanError, match="'mine' chooses type IV: the 'plotted'"):
        check_types(split_alike(grouped(), (IV, 0.5), table=plotted), partition_graph(grouped()))
    joins = load_network("resnet18")
    with pytest.raises(PlanError, match="joins paths: the 'plotted'"):
        check_types(split_alike(joins, (I, 0.5), table=plotted), partition_graph(joins))
    chain = load_network("lenet")
    check_types(split_alike(chain, (I, 0.5), table=plotted), partition_graph(chain))
