"""What must hold for any network, array and plan."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Group, load_array
from planners import TIME, Partition, Plan, Split, predict
from planners.partition import WHOLE, I, Shard, Sizes, V, boundary, producer_type
from simulator import Timeline, shares, simulate
from tests.planners.slow_sizes import shrunk, sizes
from tests.strategies import arrays, networks, plans, port_bytes_per_s
from workloads import Graph, load_network, partition_graph


def sums_of(graph: Graph, v: int, split: Split, size: Sequence[Sizes]) -> float:
    """Elements that complete a node's partial sums, without those of a tied weight's swap."""
    kind, tied, of = split.partitions[v].type, graph[v].tied, size[v]
    if graph[v].join:
        return 0.0
    weights = of.weights
    if tied is not None and split.partitions[tied].type in (I, V):  # its owner sums both
        weights = max(0.0, weights - size[tied].weights)
    return (weights, of.output, of.input, 0.0, weights + of.operand)[kind]


def link_bytes(
    graph: Graph, split: Split, scales: tuple[Shard, ...], batch: int
) -> tuple[float, float]:
    """Bytes each side of a split receives over a whole step, both directions of every edge."""
    totals = [0.0, 0.0]
    size = [sizes(node, batch, scale) for node, scale in zip(graph, scales, strict=True)]
    for v, node in enumerate(graph):
        partition = split.partitions[v]
        for side, share in enumerate((partition.share, 1 - partition.share)):
            totals[side] += 2 * sums_of(graph, v, split, size)
            for edge, (p, elements) in enumerate(zip(node.producers, size[v].reads, strict=True)):
                seen = producer_type(graph[p], split.partitions[p].type)
                second = node.operand > 0 and edge > 0  # keys: each position reads all of them
                lacks = boundary(seen, partition.type, share, operand=second)
                totals[side] += 2 * elements * sum(lacks)
    return totals[0], totals[1]


def link_bound(graph: Graph, plan: Plan, group: Group) -> float:
    """Most seconds any one split's link is busy."""

    def busiest(split: Split | None, group: Group, scales: tuple[Shard, ...]) -> float:
        if split is None:
            return 0.0
        sides = group.halves()
        received = link_bytes(graph, split, scales, plan.batch)
        own = max(b / port_bytes_per_s(side) for b, side in zip(received, sides, strict=True))
        kept = shrunk(scales, split.partitions)
        halves = split.halves if len(split.halves) == 2 else split.halves * 2
        return max(own, *(busiest(h, g, k) for h, g, k in zip(halves, sides, kept, strict=True)))

    return busiest(plan.root, group, (WHOLE,) * len(graph))


def assert_units_do_one_thing_at_a_time(timeline: Timeline) -> None:
    spans = defaultdict(list)
    for record in timeline:
        assert record.start_ps <= record.end_ps
        spans[record.resource].append((record.start_ps, record.end_ps))
    for busy in spans.values():
        for (_, end), (start, _) in pairwise(busy):
            assert end <= start


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 16))
def test_any_step(data: st.DataObject, batch: int) -> None:
    network, array = data.draw(networks()), data.draw(arrays())
    plan = data.draw(plans(network, array, batch))
    timeline = simulate(network, plan, array, folded=False)
    assert_units_do_one_thing_at_a_time(timeline)
    slack = 1 - 1e-9
    compute_bound = math.fsum(timeline.flops_by_device().values()) / array.group.peak_flops_per_s
    assert timeline.iteration_s >= compute_bound * slack
    rounding_s = len(timeline.operations) * 1e-12
    busiest_s = link_bound(partition_graph(network), plan, array.group)
    assert timeline.iteration_s + rounding_s >= busiest_s * slack
    # the planners' prediction: the same barriers, no events
    assert timeline.iteration_s == pytest.approx(
        predict(network, plan, array), rel=1e-9, abs=rounding_s
    )
    if timeline.iteration_ps:  # a gather on one board takes no time
        assert sum(shares(timeline)) == pytest.approx(1.0)


@pytest.mark.parametrize("shares", [(0.1,), (0.9,), (0.3, 0.6)])
def test_one_entry_for_halves_of_unlike_shares(shares: tuple[float, ...]) -> None:
    """Both sides do what is below, each with its own share."""
    network = load_network("lenet")
    array = load_array("accpar-homogeneous", [f"devices.0.count={2 ** len(shares)}"])
    plan = Plan.blank("mine", network, 512, TIME)
    below = None
    for share in shares:
        below = Split(tuple(Partition(I, share) for _ in plan.nodes), 0.0, (below,))
    plan = replace(plan, root=below)
    took_s = simulate(network, plan, array).iteration_s
    assert predict(network, plan, array) == pytest.approx(took_s, rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(st.data(), st.integers(1, 16))
def test_alike_halves_written_twice_take_the_same_time(data: st.DataObject, batch: int) -> None:
    """A plan whose halves share a sub-plan, against the same plan spelled out."""
    network, array = data.draw(networks(most=4)), data.draw(arrays(kinds=2))
    plan = data.draw(plans(network, array, batch))

    def spelled(split: Split | None) -> Split | None:
        if split is None:
            return None
        halves = tuple(spelled(half) for half in split.halves)
        return Split(split.partitions, split.cost, halves * (2 if len(halves) == 1 else 1))

    twice = replace(plan, root=spelled(plan.root))
    one = simulate(network, plan, array, folded=False)
    other = simulate(network, twice, array, folded=False)
    assert one.iteration_ps == other.iteration_ps
    assert sorted(map(tuple, one)) == sorted(map(tuple, other))
