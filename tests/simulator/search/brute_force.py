"""Every layout of a few cores, simulated one by one: what the search should find."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import product

from hardware import Array
from planners import Partition, Plan, Split
from planners.partition import WHOLE, Shard, legal, shrunk
from planners.plan.updates import UPDATE_ORDERS
from simulator import Execution, simulate
from simulator.search.candidates import leaves_of, lifted
from workloads import Network, partition_graph


def all_layouts(network: Network, array: Array, batch: int) -> Iterator[Plan]:
    """Every type of every node at every level, on the first 1, 2, 4, ... cores of one kind."""
    graph = partition_graph(network)
    names = tuple(node.name for node in graph)

    def splits(levels: int, shards: tuple[Shard, ...]) -> Iterator[Split | None]:
        if not levels:
            yield None
            return
        for types in product(*(legal(n, s) for n, s in zip(graph, shards, strict=True))):
            partitions = tuple(Partition(kind, 0.5) for kind in types)
            for below in splits(levels - 1, shrunk(shards, partitions)[0]):
                yield Split(partitions, 0.0, (below,))

    for device, _ in array.group.kinds:
        for levels in range(leaves_of(array.group, device).bit_length()):
            for split in splits(levels, (WHOLE,) * len(graph)):
                root = lifted(split, array.group, device, 1 << levels, len(names))
                yield Plan("brute force", network.name, batch, "time", names, root)


def best_s(network: Network, array: Array, batch: int, execution: Execution) -> float:
    """The shortest step of all layouts, updated in either order; ``array`` as it is planned for."""
    orders = ("",) if execution.update_order else UPDATE_ORDERS
    plans = (
        replace(plan, update_order=order)
        for plan in all_layouts(network, array, batch)
        for order in orders
    )
    return min(simulate(network, plan, array, execution).iteration_s for plan in plans)
