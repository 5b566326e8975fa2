"""The published step: what follows what, for any graph."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planners import Communication, Partition, PartitionType
from planners.order import Item, Kind, Phase, consumers, published_order, received
from planners.partition import WHOLE, legal
from tests.planners.slow_sizes import sizes
from tests.strategies import networks
from workloads import Builder, Graph, Network, partition_graph

I, II, III, IV, V = PartitionType  # noqa: E741


@settings(deadline=None)
@given(networks())
def test_everything_happens_once(network: Network) -> None:
    graph = partition_graph(network)
    steps = published_order(graph)
    assert len(set(steps)) == len(steps)
    products = [v for v, node in enumerate(graph) if not node.join]
    edges = [(p, v, e) for v, node in enumerate(graph) for e, p in enumerate(node.producers)]
    for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.GRADIENT):
        for kind in (Kind.COMPUTE, Kind.SUMS):
            found = [s.node for s in steps if (s.kind, s.phase) == (kind, phase)]
            assert sorted(found) == products
    for phase in (Phase.FORWARD, Phase.BACKWARD):
        crossed = [
            (s.node, s.consumer, s.edge)
            for s in steps
            if (s.kind, s.phase) == (Kind.BOUNDARY, phase)
        ]
        assert sorted(crossed) == sorted(edges)
    assert len(steps) == 6 * len(products) + 2 * len(edges)


@settings(deadline=None)
@given(networks())
def test_nothing_is_used_before_it_is_there(network: Network) -> None:
    """Features forward, errors backward; sums right behind their product."""
    graph = partition_graph(network)
    steps = published_order(graph)
    at = {step: i for i, step in enumerate(steps)}
    for v, node in enumerate(graph):
        for e, p in enumerate(node.producers):
            forward = at[Item(Kind.BOUNDARY, Phase.FORWARD, p, v, e)]
            backward = at[Item(Kind.BOUNDARY, Phase.BACKWARD, p, v, e)]
            assert forward < backward
            if not node.join:
                assert forward < at[Item(Kind.COMPUTE, Phase.FORWARD, v)]
                assert at[Item(Kind.COMPUTE, Phase.BACKWARD, v)] < backward
            if not graph[p].join:
                assert at[Item(Kind.SUMS, Phase.FORWARD, p)] < forward
                assert backward < at[Item(Kind.COMPUTE, Phase.BACKWARD, p)]
        if not node.join:
            for phase in (Phase.FORWARD, Phase.BACKWARD, Phase.GRADIENT):
                computed = at[Item(Kind.COMPUTE, phase, v)]
                assert steps[computed + 1] == Item(Kind.SUMS, phase, v)
            backward = at[Item(Kind.COMPUTE, Phase.BACKWARD, v)]
            assert at[Item(Kind.COMPUTE, Phase.GRADIENT, v)] == backward + 2
    weighted = [v for v, node in enumerate(graph) if not node.join]
    for first, second in combinations(weighted, 2):
        for phase, early in ((Phase.FORWARD, first), (Phase.BACKWARD, second)):
            late = first + second - early
            one, other = Item(Kind.COMPUTE, phase, early), Item(Kind.COMPUTE, phase, late)
            assert at[one] < at[other]


@given(networks())
def test_consumers_are_the_other_end_of_producers(network: Network) -> None:
    graph = partition_graph(network)
    readers = consumers(graph)
    assert len(readers) == len(graph)
    backwards = {(p, v, e) for p, found in enumerate(readers) for v, e in found}
    forwards = {(p, v, e) for v, node in enumerate(graph) for e, p in enumerate(node.producers)}
    assert backwards == forwards


def tied(share: str = "words") -> Graph:
    """A table of 12 rows of 4 features, used again as a head of 12 outputs."""
    net = Builder("tied", 1, 6)
    net.embedding("words", 12, 4)
    net.linear("middle", 4)
    net.linear("head", 12, shared=share)
    return partition_graph(net.build())


Coordinates = frozenset[tuple[int, int]]


def of_table(use: str, kind: PartitionType, share: float, half: int) -> Coordinates:
    """Rows and features of the table that a half's use of it needs; I and III as types say."""
    rows, features = range(12), range(4)
    cut = {("words", II): 0, ("words", III): 1, ("head", II): 1, ("head", III): 0}.get((use, kind))
    if cut == 0:
        rows = range(int(12 * share)) if half == 0 else range(int(12 * share), 12)
    if cut == 1:
        features = range(int(4 * share)) if half == 0 else range(int(4 * share), 4)
    return frozenset((row, feature) for row in rows for feature in features)


@pytest.mark.parametrize("share", [0.25, 0.5])
@pytest.mark.parametrize("owner", [II, III])
@pytest.mark.parametrize("head", [II, III])
def test_two_uses_of_a_weight_cut_apart_exchange_what_differs(
    head: PartitionType, owner: PartitionType, share: float
) -> None:
    """Gradients of what the owner keeps and the head has not, weights the other way round."""
    graph = tied()
    size = [sizes(node, 2, WHOLE) for node in graph]
    partitions = [Partition(kind, share) for kind in (owner, I, head)]
    wanted = []
    for half in (0, 1):
        kept = of_table("words", owner, share, half)
        used = of_table("head", head, share, half)
        wanted.append(len(kept - used) + len(used - kept))
    found = received(Item(Kind.SUMS, Phase.GRADIENT, 2), graph, partitions, size)
    assert found == pytest.approx(wanted)


def test_replicas_of_a_tied_weight_sum_once_with_their_owner() -> None:
    graph = tied()
    size = [sizes(node, 2, WHOLE) for node in graph]
    both = [Partition(I, 0.5)] * 3
    assert received(Item(Kind.SUMS, Phase.GRADIENT, 2), graph, both, size) == (0.0, 0.0)
    assert received(Item(Kind.SUMS, Phase.GRADIENT, 0), graph, both, size) == (48.0, 48.0)
    alone = [Partition(III, 0.5), Partition(I, 0.5), Partition(I, 0.5)]
    assert received(Item(Kind.SUMS, Phase.GRADIENT, 2), graph, alone, size) == (48.0, 48.0)


@settings(deadline=None)
@given(networks(), st.data())
def test_a_half_that_has_everything_receives_only_what_is_summed(
    network: Network, data: st.DataObject
) -> None:
    """With the whole of every layer nothing is missing at any boundary."""
    graph = partition_graph(network)
    partitions = [Partition(data.draw(st.sampled_from(legal(node))), 1.0) for node in graph]
    size = [sizes(node, 4, WHOLE) for node in graph]
    for item in published_order(graph):
        if item.kind is Kind.BOUNDARY:
            assert received(item, graph, partitions, size)[0] == 0.0


@settings(deadline=None)
@given(networks(), st.data())
def test_both_halves_are_one_anothers_mirror(network: Network, data: st.DataObject) -> None:
    """What a half with a share receives, the other one receives with that share."""
    graph = partition_graph(network)
    kinds = [data.draw(st.sampled_from(legal(node))) for node in graph]
    share = data.draw(st.sampled_from([0.25, 0.5, 0.75]))
    size = [sizes(node, 4, WHOLE) for node in graph]
    one = [Partition(kind, share) for kind in kinds]
    other = [Partition(kind, 1 - share) for kind in kinds]
    for item in published_order(graph):
        if item.kind is not Kind.COMPUTE:
            assert received(item, graph, one, size) == received(item, graph, other, size)[::-1]


def test_the_plotted_table_sums_type_ii_after_its_pool() -> None:
    net = Builder("pooled", 2, 8, 8)
    net.conv("conv", 3, 3, 1, 1)
    net.pool("pool", 2, 2)
    net.flatten("flat")
    net.fc("fc", 5)
    graph = partition_graph(net.build())
    size = [sizes(node, 4, WHOLE) for node in graph]
    item, partitions = Item(Kind.SUMS, Phase.FORWARD, 0), [Partition(II, 0.5)] * 2
    printed, plotted = (received(item, graph, partitions, size, table) for table in Communication)
    assert printed == (4 * 3 * 64, 4 * 3 * 64)
    assert plotted == (4 * 3 * 16, 4 * 3 * 16)
