"""The bound that knows when the stream may end, by going through all layouts."""

from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hardware import Array, load_array
from simulator import DEPLOYED, Execution, simulate
from simulator.planning.bounds import layouts_bound
from simulator.planning.chain import Chain
from simulator.planning.search import search
from simulator.planning.tails import TRIED, Parts, _Tails, tail_bound_s
from tests.simulator.planning.cases import BATCHES, chains, like_cores
from tests.simulator.planning.test_chain import chain_on
from workloads import Network, load_network

SLOW = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
BUCKETS = st.sampled_from((0.0, 1e5, 25.0 * 2**20))


def with_tail(chain: Chain, picks: tuple[int, ...]) -> float:
    """Forward, backward to the first node with a gradient in the stream, its bucket, updates.

    Of the bucket its own gradient, and of the nodes behind of the same types what
    the last byte costs; nothing of either where none is in the stream.
    """
    nodes, last = list(zip(chain.nodes, picks, strict=True)), len(picks) - 1
    total = sum(float(costs.forward_s[pick]) for costs, pick in nodes)
    total += sum(float(chain.pair(v, 1.0)[picks[v - 1], picks[v]]) for v in range(1, len(picks)))
    if chain.ends:
        total += float(nodes[last][0].forward_sums_s[picks[last]])
    in_stream = [v for v in range(len(picks)) if chain.starts(v)[picks[v]]]
    if not in_stream:
        return total
    first = in_stream[0]
    for v in range(first, len(picks)):
        costs, pick = nodes[v]
        total += float(costs.backward_s[pick] + costs.update_s[pick])
        if v > first:
            both, forward = (chain.pair(v, weight)[picks[v - 1], pick] for weight in (0.0, 1.0))
            total += float(both - forward)
    costs, pick = nodes[first]
    total += float(costs.gradient_s[pick])
    curves = chain.tables.curves

    def exchange_s(v: int, size: float) -> float:
        mask = int(nodes[v][0].states.masks[0][picks[v]])
        return float(curves.of_masks("all-reduce", np.array([mask]), np.array([size]))[0])

    total += exchange_s(first, float(costs.gradient_bytes[pick]))
    whole = sum(float(one.gradient_bytes.max()) for one in chain.nodes)
    if whole < chain.tables.bucket_bytes:
        for v in range(first + 1, len(picks)):
            types = [nodes[at][0].states.at(picks[at]) for at in (first, v)]
            if types[0] != types[1] or v not in in_stream:
                break
            byte_s = (exchange_s(v, 2 * whole) - exchange_s(v, whole)) / whole
            total += byte_s * float(nodes[v][0].gradient_bytes[picks[v]])
    return total


@SLOW
@given(chains(3), like_cores(4), BATCHES, BUCKETS)
def test_the_least_is_that_of_all_layouts(
    network: Network, whole: Array, batch: int, bucket: float
) -> None:
    execution = Execution("deployed", bucket_bytes=bucket)
    chain = chain_on(network, whole, batch, execution)
    ranges = [range(len(costs.states)) for costs in chain.nodes]
    tails = _Tails(chain)
    least_s = min(with_tail(chain, picks) for picks in product(*ranges))
    assert tails.least_s(Parts(0.0, 0.0, 1.0)) == pytest.approx(least_s)
    means = (
        0.6 * chain.seconds(picks, 0.0) + 0.4 * with_tail(chain, picks)
        for picks in product(*ranges)
    )
    assert tails.least_s(Parts(0.6, 0.0, 0.4)) == pytest.approx(min(means))
    of_chain = [chain.least(weight).bound_s for weight in (0.0, 0.5)]
    assert tails.least_s(Parts(1.0, 0.0, 0.0)) == pytest.approx(of_chain[0])
    assert tails.least_s(Parts(0.5, 0.5, 0.0)) == pytest.approx(of_chain[1])


def test_without_overlap_there_is_no_tail() -> None:
    serial = Execution("deployed", overlap=False)
    chain = chain_on(load_network("lenet"), load_array("tpu-v3-8"), 512, serial)
    assert tail_bound_s(chain) == 0
    assert all(sum(parts) == pytest.approx(1) and min(parts) >= 0 for parts in TRIED)


def test_lenet_on_a_board_is_certified_within_three_percent() -> None:
    """All gradients are one bucket, behind everything else: by the chain alone it is 4.1 %."""
    network, array = load_network("lenet"), load_array("tpu-v3-8")
    planned = DEPLOYED.planned(array)
    plan = search(network, planned, 512, execution=DEPLOYED)
    bound = layouts_bound(network, planned, 512, DEPLOYED)
    assert bound is not None
    assert 1 <= simulate(network, plan, array, DEPLOYED).iteration_s / bound.seconds <= 1.03
    chain = chain_on(network, array, 512, DEPLOYED)
    assert bound.seconds >= 1.005 * chain.best()[0].bound_s
