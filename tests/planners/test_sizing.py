"""All nodes of a graph at once, against one node after the other: equal to the last bit."""

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planners import Partition, PartitionType
from planners.partition import III, IV, I, Shard, Sizes, V, legal, partial_sums
from planners.sizing import AllSizes, array_of, kept, shares_of, sizing, types_of, whole
from tests.planners.slow_sizes import shrunk, sizes
from tests.strategies import networks
from workloads import NETWORKS, Builder, Graph, Network, load_network, partition_graph

SHARES = st.sampled_from([0.0, 2.0**-16, 0.1, 1 / 3, 0.5, 0.75, 1.0])
FUSED = partition_graph(load_network("gpt2:layers=1:seq=16:attention=fused"))
FAMILIES = ["resnet18", "mobilenet-v2", "gpt2:seq=8", "gnmt:seq=4", "llama3-8b:seq=8", "bert-base"]


def check(graph: Graph, batch: int, groups: list[list[Shard]]) -> None:
    shards = array_of(groups, len(graph))
    for fused in (False, True):
        found = sizing(graph).of(batch, shards, fused=fused)
        for number, group in enumerate(groups):
            wanted = [sizes(n, batch, s, fused=fused) for n, s in zip(graph, group, strict=True)]
            assert sizing(graph).each(batch, shards[number], fused=fused) == wanted
            alone = sizing(graph).of(batch, shards[number], fused=fused)
            assert (found.flops[0][number] == alone.flops[0]).all()
            assert (found.reads[number] == alone.reads).all()
            for pooled in (False, True):
                sums = [[partial_sums(t, s, pooled=pooled) for t in PartitionType] for s in wanted]
                assert alone.sums(pooled=pooled).tolist() == sums


@settings(deadline=None)
@given(networks(), st.integers(1, 1000), st.data())
def test_all_nodes_are_sized_as_each_of_them(
    network: Network, batch: int, data: st.DataObject
) -> None:
    graph = partition_graph(network)
    drawn = st.builds(Shard, SHARES, SHARES, SHARES, SHARES, SHARES)
    groups = [[data.draw(drawn) for _ in graph] for _ in range(2)]
    check(graph, batch, groups)


@pytest.mark.parametrize("name", [*FAMILIES, "inception-v3"])
def test_every_kind_of_layer_is_sized_as_by_itself(name: str) -> None:
    """Groups, gathers, matmuls, cells, joins, tied weights."""
    graph = partition_graph(load_network(name))
    check(graph, 512, [[Shard()] * len(graph), [Shard(1 / 3, 0.3, 0.7, 0.25, 0.6)] * len(graph)])


def test_the_families_have_every_kind_of_layer_there_is() -> None:
    """Else the test above would miss one."""
    every = {node.kind for name in NETWORKS for node in partition_graph(load_network(name))}
    mine = {node.kind for name in FAMILIES for node in partition_graph(load_network(name))}
    assert mine == every


@pytest.mark.parametrize("name", ["mixtral-8x7b", "deepseek-v3"])
def test_fused_attention_and_experts_are_sized_as_by_themselves(name: str) -> None:
    graph = partition_graph(load_network(f"{name}:layers=4:seq=64:attention=fused"))
    assert {"attention", "other"} <= {node.kind for node in graph}
    check(graph, 512, [[Shard()] * len(graph), [Shard(1 / 3, 0.3, 0.7, 0.25, 0.6)] * len(graph)])


def test_flops_of_a_step_of_attention() -> None:
    """Two a multiply-accumulate forward, 2.5 times as many backward, none for weights."""
    node = next(n for n in FUSED if n.kind == "attention")
    whole, part = sizes(node, 4, Shard()), sizes(node, 4, Shard(0.5, 1.0, 1.0, 0.25))
    pairs = 4 * 12 * 16 * 17 / 2  # samples, heads, pairs of 16 positions that are seen
    assert whole.flops == pytest.approx((pairs * 4 * 64, pairs * 10 * 64, 0.0))
    assert part.flops == pytest.approx(tuple(each / 8 for each in whole.flops))
    assert (whole.weights, legal(node)) == (0.0, (I, IV, V))


def test_joins_that_route_tokens_have_no_columns() -> None:
    graph = partition_graph(load_network("mixtral-8x7b:layers=1:seq=64"))
    assert [legal(node) for node in graph if node.routes] == [(I, III, V), (I, III, V)]
    experts = [node for node in graph if ".experts." in node.name and not node.join]
    assert all(IV in legal(node) and node.groups == 8 for node in experts)


def test_transposed_convolutions_are_counted_on_their_input() -> None:
    graph = tuple(replace(n, transposed=True) for n in partition_graph(load_network("vgg11")))
    check(graph, 8, [[Shard(0.5, 0.25, 0.75, 1.0)] * len(graph)])


@settings(deadline=None)
@given(networks(), st.data())
def test_sides_keep_what_each_node_keeps(network: Network, data: st.DataObject) -> None:
    graph = partition_graph(network)
    shards = [data.draw(st.builds(Shard, SHARES, SHARES, SHARES, SHARES, SHARES)) for _ in graph]
    partitions = [
        Partition(data.draw(st.sampled_from(PartitionType)), data.draw(SHARES)) for _ in graph
    ]
    found = kept(array_of([shards], len(graph))[0], types_of(partitions), shares_of(partitions))
    wanted = shrunk(shards, partitions)
    assert [[Shard(*row) for row in side.tolist()] for side in found] == [[*w] for w in wanted]


@settings(deadline=None)
@given(networks(), st.data())
def test_the_first_node_with_a_type_that_it_may_not_have_is_found(
    network: Network, data: st.DataObject
) -> None:
    graph = partition_graph(network)
    types = [data.draw(st.sampled_from(PartitionType)) for _ in graph]
    shards = [Shard(groups=data.draw(SHARES)) for _ in graph]
    wrong = [t not in legal(n, s) for n, s, t in zip(graph, shards, types, strict=True)]
    found = sizing(graph).illegal(array_of([shards], len(graph))[0], np.array(types))
    assert found == (wrong.index(True) if any(wrong) else None)


def test_everything_is_held_at_the_top() -> None:
    graph = partition_graph(load_network("lenet"))
    assert [Shard(*row) for row in whole(graph).tolist()] == [Shard()] * len(graph)
    assert len(fields(AllSizes)) == len(fields(Sizes))


def test_groups_part_while_two_whole_ones_are_left() -> None:
    """Of four groups, a half has two, which part once more, and a quarter one, which does not."""
    net = Builder("grouped", 8, 4, 4)
    net.conv("conv", 8, 3, 1, 1, groups=4)
    graph = partition_graph(net.build())
    for left, wanted in ((1.0, None), (0.5, None), (0.25, 0)):
        shards = array_of([[Shard(groups=left)]], 1)[0]
        assert sizing(graph).illegal(shards, np.array([PartitionType.IV])) == wanted
