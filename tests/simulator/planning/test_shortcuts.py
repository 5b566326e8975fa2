"""Blocks whose ends wait for two ways: every layout by itself, and all of them at once."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hardware import Array, load_array
from planners.partition import II, I
from simulator import DEPLOYED, Execution, simulate
from simulator.planning.bounds import is_layout, step_bound
from simulator.planning.chain import MOST_WEIGHT, Chain
from simulator.planning.search import search
from simulator.planning.shortcuts import blocks, least_s, least_sum
from tests.simulator.planning.cases import BATCHES, like_cores
from tests.simulator.planning.matrix import CLUSTER
from tests.simulator.planning.test_chain import chain_on
from tests.simulator.planning.test_earliest import BUCKETS, alone, simulated_s
from workloads import Builder, Network, load_network

SLOW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def residual(draw: st.DrawFn) -> Network:
    """One block as ResNets have them, with or without a product on its shortcut."""
    net = Builder("residual", draw(st.sampled_from((3, 16))), 8, 8)
    widths = st.sampled_from((2, 8, 64))
    width = draw(widths)
    shortcut = net.conv("first", width, 3, 1, 1)
    net.conv("one", draw(widths), 3, 1, 1)
    if draw(st.booleans()):
        width = draw(widths)
        last = net.conv("two", width, 3, 1, 1)
        shortcut = net.conv("beside", width, 1, 1, 0, after=shortcut)
    else:
        last = net.conv("two", width, 3, 1, 1)
    net.add("add", last, shortcut)
    if draw(st.booleans()):
        net.conv("behind", draw(widths), 3, 1, 1)
    return net.build()


def summed(chain: Chain, picks: tuple[int, ...], weight: float) -> float:
    """One layout's sum, with the longer of two ways: once more, node by node."""
    at, total = 0, float(chain.own(0, weight)[picks[0]])
    ends = {u: (edge, v) for u, edge, v in blocks(chain)}
    while at < len(picks) - 1:
        edge, end = ends.get(at, (0, at + 1))
        way = sum(
            float(chain.pair(v, weight)[picks[v - 1], picks[v]]) for v in range(at + 1, end + 1)
        )
        way += sum(float(chain.own(v, weight)[picks[v]]) for v in range(at + 1, end))
        if at in ends:
            around = float(chain.tables.forward_relay(edge, end)[picks[at], picks[end]])
            around += float(chain.nodes[at].forward_sums_s[picks[at]])
            for v in range(at + 1, end):
                around += float((chain.own(v, weight) - chain.nodes[v].forward_s).min())
            for v in range(at + 1, end + 1):
                around += (1 - weight) * float(chain.between(v)[1].min())
            way = max(way, around)
        total += way + float(chain.own(end, weight)[picks[end]])
        at = end
    return total


@SLOW
@given(residual(), like_cores(2), BATCHES, st.sampled_from((0.0, 0.3, 0.9)))
def test_the_least_of_all_layouts(
    network: Network, whole: Array, batch: int, weight: float
) -> None:
    chain = chain_on(network, whole, batch, DEPLOYED, sure=True)
    every = product(*(range(len(costs.states)) for costs in chain.nodes))
    least = min(summed(chain, picks, weight) for picks in every)
    assert least_sum(chain, blocks(chain), weight) == pytest.approx(least, rel=1e-9)


@SLOW
@given(residual(), like_cores(4), BATCHES, BUCKETS, st.data())
def test_no_layout_takes_less_than_its_own_sum(
    network: Network, whole: Array, batch: int, bucket: float, data: st.DataObject
) -> None:
    """Simulated, in the better order of updates."""
    execution = Execution("deployed", bucket_bytes=bucket)
    chain = chain_on(network, whole, batch, execution, sure=True)
    picks = tuple(data.draw(st.integers(0, len(costs.states) - 1)) for costs in chain.nodes)
    one = alone(chain, picks)
    sums = [least_sum(one, blocks(one), weight) for weight in (0.0, 0.5, MOST_WEIGHT)]
    step_s = simulated_s(network, whole, batch, execution, chain, picks)
    assert max(sums) <= step_s * (1 + 1e-9)
    assert least_s(one) <= step_s * (1 + 1e-9)


def test_blocks_lie_apart_the_shortest_first() -> None:
    """Of a block with a product on its shortcut the sum of the second one and that."""
    chain = chain_on(load_network("resnet18"), load_array("tpu-v3-8"), 512, DEPLOYED, sure=True)
    names = [node.name for node in chain.tables.graph]
    found = [(names[u], names[v]) for u, _, v in blocks(chain)]
    assert found[:4] == [
        ("conv1", "layer1.0.add"),
        ("layer1.0.add", "layer1.1.add"),
        ("layer2.0.conv2", "layer2.0.add"),
        ("layer2.0.add", "layer2.1.add"),
    ]
    straight = chain_on(load_network("vgg11"), load_array("tpu-v3-8"), 512, DEPLOYED, sure=True)
    assert least_s(straight) == 0


def test_a_block_counts_where_a_core_waits_at_its_end_for_what_was_made_at_its_begin() -> None:
    chain = chain_on(load_network("resnet18"), load_array("tpu-v3-8"), 512, DEPLOYED, sure=True)
    (u, _, v), *rest = blocks(chain)
    waits, every = chain.waits, range(len(chain.nodes))
    chain.waits = replace(waits, made=tuple(k != u for k in every))
    assert blocks(chain)[0] != (u, 0, v)
    chain.waits = replace(waits, used=tuple(k != v for k in every))
    assert [one for one in blocks(chain) if one[2] != v][-len(rest) :] == rest
    assert all(end != v for _, _, end in blocks(chain))


def test_sums_that_only_a_shortcut_waits_for_are_counted() -> None:
    """By hand: the second product's partial sums, beside what lies on the shortcut."""
    network, array = load_network("resnet18"), load_array(str(CLUSTER))
    chain = chain_on(network, array, 512, DEPLOYED, sure=True)
    names = [node.name for node in chain.tables.graph]
    types = [(I,) * 5] * len(names)
    v = names.index("layer4.0.conv2")
    types[v] = (II, II, II, I, I)
    picks = tuple(
        costs.states.numbers[of_node] for costs, of_node in zip(chain.nodes, types, strict=True)
    )
    one = alone(chain, picks)
    (sums_s,), (beside_s,) = one.nodes[v].forward_sums_s, one.nodes[v + 1].forward_s
    more_s = least_sum(one, blocks(one), 0.0) - one.least(0.0).bound_s
    moved_s = float(one.tables.forward_relay(0, v + 2)[0, 0])
    assert more_s == pytest.approx(sums_s + moved_s - beside_s)
    assert more_s > 0.2 * one.least(0.0).bound_s


def test_the_weight_that_says_most_is_found() -> None:
    chain = chain_on(load_network("resnet18"), load_array("tpu-v3-8"), 512, DEPLOYED, sure=True)
    found = blocks(chain)
    every = [least_sum(chain, found, weight) for weight in np.linspace(0, MOST_WEIGHT, 30).tolist()]
    assert 0.995 * max(every) <= least_s(chain) <= 1.005 * max(every)


def test_resnets_on_nodes_of_eight_have_a_near_bound() -> None:
    network, array = load_network("resnet18"), DEPLOYED.planned(load_array(str(CLUSTER)))
    plan = search(network, array, 512, execution=DEPLOYED)
    bound = step_bound(network, array, 512, DEPLOYED, layout=True, bucket_bytes=plan.bucket_bytes)
    assert is_layout(network, plan, array)
    assert bound is not None
    assert 0 <= bound.gap(simulate(network, plan, array, DEPLOYED).iteration_s) <= 0.15
