"""What all splits move, at once, against each exchange of each split by itself."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planners import Communication, Partition, PartitionType
from planners.order import Kind, published_order, received
from planners.partition import LAYOUTS, Shard, sizes
from planners.sizing import array_of, shares_of, sizing, types_of
from simulator.lowering.moved import moved
from tests.strategies import networks
from workloads import Graph, Network, load_network, partition_graph

I, II, III, IV, V = PartitionType  # noqa: E741
JOINED = (*LAYOUTS, V)
SHARES = st.sampled_from([0.0, 0.1, 1 / 3, 0.5, 1.0])
Split = tuple[list[Shard], list[Partition]]


def check(graph: Graph, splits: list[Split], table: Communication) -> None:
    """The same amounts to the last bit, and nothing for a split that moves nothing."""
    found = moved(
        graph,
        sizing(graph).of(48, array_of((shards for shards, _ in splits), len(graph))),
        np.array([types_of(partitions) for _, partitions in splits]),
        np.array([shares_of(partitions) for _, partitions in splits]),
        table,
        2.0,
    )
    for item in published_order(graph):
        if item.kind is Kind.COMPUTE:
            continue
        wanted = []
        for number, (shards, partitions) in enumerate(splits):
            size = [sizes(node, 48, shard) for node, shard in zip(graph, shards, strict=True)]
            first, second = received(item, graph, partitions, size, table)
            if first or second:
                wanted.append((number, first * 2.0, second * 2.0))
        assert found.of(item) == wanted


@settings(deadline=None)
@given(networks(), st.sampled_from(Communication), st.data())
def test_every_exchange_moves_what_it_does_by_itself(
    network: Network, table: Communication, data: st.DataObject
) -> None:
    graph = partition_graph(network)
    shards = st.builds(Shard, SHARES, SHARES, SHARES, SHARES, SHARES)
    splits = [
        (
            [data.draw(shards) for _ in graph],
            [
                Partition(data.draw(st.sampled_from(JOINED if n.join else [*PartitionType])), one)
                for n, one in ((node, data.draw(SHARES)) for node in graph)
            ],
        )
        for _ in range(3)
    ]
    check(graph, splits, table)


@pytest.mark.parametrize("name", ["gpt2:seq=8", "resnet18", "gnmt:seq=4"])
def test_tied_weights_joins_and_cells_at_every_pair_of_types(name: str) -> None:
    graph = partition_graph(load_network(name))
    splits = []
    for own, other in product(PartitionType, PartitionType):
        kinds = [own if v % 2 else other for v in range(len(graph))]
        kinds = [III if n.join and k is IV else k for n, k in zip(graph, kinds, strict=True)]
        splits.append(([Shard(0.5, 0.25)] * len(graph), [Partition(kind, 0.3) for kind in kinds]))
    check(graph, splits, Communication.PRINTED)
