"""A split priced in long arrays, against every entry priced by itself."""

from dataclasses import replace

import pytest

from hardware import Array, load_array
from planners import TIME, TRAFFIC, Communication, Objective, PartitionType
from planners.hierarchy import plan_hierarchy
from planners.level import Level
from planners.objective import Prices, edge
from planners.partition import WHOLE, sizes
from planners.sizing import sizing, whole
from planners.terms import links_of, terms_of
from tests.planners.graphs import every_pair_added, general
from tests.planners.slow_search import Allowed, slow_root
from workloads import Network, Node, Tensor, load_network

I, II, III, IV, V = PartitionType  # noqa: E741
PLOTTED = replace(TIME, communication=Communication.PLOTTED)


def every(node: Node) -> tuple[PartitionType, ...]:  # noqa: ARG001
    return tuple(PartitionType)


def two(node: Node) -> tuple[PartitionType, ...]:  # noqa: ARG001
    return (I, II)


def mixed(first: int, second: int) -> Array:
    changes = [f"devices.0.count={first}", f"devices.1.count={second}"]
    return load_array("accpar-mixed", changes)


def check(network: Network, array: Array, objective: Objective, allowed: Allowed) -> None:
    """Types, shares, costs and bounds of every split, to the last bit."""
    for balance in (False, True):
        wanted = slow_root(network, array, 100, objective, allowed, balance=balance)
        plan = plan_hierarchy("mine", network, array, 100, objective, allowed, balance=balance)
        assert wanted is not None
        assert plan.root == wanted


@pytest.mark.parametrize("objective", [TIME, TRAFFIC], ids=str)
@pytest.mark.parametrize("seed", range(25))
def test_any_graph_is_planned_as_slowly(seed: int, objective: Objective) -> None:
    check(general(seed), mixed(3, 2), objective, every)


@pytest.mark.parametrize(
    "name",
    ["alexnet", "resnet18", "mobilenet-v2", "gpt2:seq=8", "gnmt:seq=4", "llama3-8b:seq=8"],
)
def test_networks_are_planned_as_slowly(name: str) -> None:
    """Joins, groups, tied weights, cells and grouped queries."""
    network = load_network(name)
    check(network, mixed(2, 2), TIME, every)
    check(network, mixed(2, 2), TRAFFIC, two)


def test_chains_by_the_plotted_table_are_planned_as_slowly() -> None:
    check(load_network("vgg11"), mixed(2, 4), PLOTTED, two)


def test_a_graph_too_wide_for_lists_is_planned_as_slowly() -> None:
    array = load_array("accpar-homogeneous", ["devices.0.count=2"])
    check(every_pair_added(7), array, TRAFFIC, every)


def level(graph: tuple[Node, ...], types: list[PartitionType], objective: Objective) -> Level:
    domains = tuple((type_,) for type_ in types)
    terms = terms_of(links_of(graph), domains, objective.communication, balanced=False)
    size = sizing(graph).of(2, whole(graph))
    prices = (Prices(1.0, 1.0), Prices(1.0, 1.0))
    return Level(graph, domains, terms, size, prices, 0.5, objective)


def test_a_product_adds_the_edges_into_it() -> None:
    read = Tensor(4, 2)
    first, second = (Node(n, "conv", 4, 4, 1, 2, 2, 2, ()) for n in "ab")
    product = Node("m", "matmul", 4, 6, 1, 2, 2, 2, (0, 1), groups=2, reads=(read,) * 2, operand=8)
    problem = level((first, second, product), [I, II, IV], TIME)
    numbers, size = problem.choices(), sizes((first, second, product)[2], 2, WHOLE)
    assert (numbers.work[2], numbers.fixed[2]) == (sum(size.flops), 0.0)
    assert numbers.swap[2] == edge(I, IV, size.reads[0])[0]
    assert numbers.rest[2] == edge(II, IV, size.reads[1])[1]


@pytest.mark.parametrize(
    ("objective", "wanted"), [(TIME, 2 * 5 * 16), (TRAFFIC, 2 * 5 * 4), (PLOTTED, 2 * 5 * 4)]
)
def test_the_pool_behind_a_layer_is_the_objectives_or_the_tables(
    objective: Objective, wanted: float
) -> None:
    node = Node("conv", "conv", 3, 5, 9, 64, 16, 4, ())
    assert level((node,), [II], objective).choices().fixed.tolist() == [wanted]
    assert level((node,), [I], objective).choices().fixed.tolist() == [135]
