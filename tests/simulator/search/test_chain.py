"""The least sum over all states, by going through all of them."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hardware import Array, load_array
from planners.hierarchy.min_sum import Factor
from simulator import DEPLOYED, Execution
from simulator.search.layouts import _factors, _joined, first_cores, with_branches
from simulator.search.relaxation import Chain
from simulator.search.tables import Cores, Tables
from tests.simulator.search.cases import BATCHES, EXECUTIONS, chains, like_cores
from workloads import Builder, Network, load_network

SLOW = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
WEIGHTS = st.sampled_from((0.0, 0.3, 0.9))


def chain_on(
    network: Network, whole: Array, batch: int, execution: Execution, *, sure: bool = False
) -> Chain:
    array = execution.planned(whole)
    cores = first_cores(array, array.group.kinds[0][0], array.group.size)
    assert cores is not None
    return Chain(Tables(network, batch, cores, execution), sure=sure)


@SLOW
@given(chains(4), like_cores(2), BATCHES, EXECUTIONS, WEIGHTS)
def test_least_and_marginals(
    network: Network, whole: Array, batch: int, execution: Execution, weight: float
) -> None:
    chain = chain_on(network, whole, batch, execution)
    ranges = [range(len(costs.states)) for costs in chain.nodes]
    sums = {picks: chain.seconds(picks, weight) for picks in product(*ranges)}
    found = chain.least(weight)
    assert found.bound_s == pytest.approx(min(sums.values()))
    assert sums[found.picks] == pytest.approx(found.bound_s)
    for v, marginals in enumerate(chain.marginals(weight)):
        for state, least in enumerate(marginals.tolist()):
            of = [total for picks, total in sums.items() if picks[v] == state]
            assert least == pytest.approx(min(of))


@SLOW
@given(chains(), like_cores(), BATCHES, EXECUTIONS)
def test_the_best_weight_is_the_best_of_many(
    network: Network, whole: Array, batch: int, execution: Execution
) -> None:
    chain = chain_on(network, whole, batch, execution)
    best_s = chain.best()[0].bound_s
    for weight in np.linspace(0, 0.99, 12).tolist():
        assert chain.least(weight).bound_s <= best_s * 1.001


def test_branches_count_every_edge() -> None:
    """Two convolutions and a shortcut: what the chain leaves out is what ``with_branches`` adds."""
    chain = chain_on(load_network("resnet18"), load_array("tpu-v3-8"), 512, DEPLOYED)
    together, single = with_branches(chain, 0.0)
    assert of_alike_nodes(chain, together)
    assert len(single) == len(chain.nodes)
    straight = chain_on(load_network("vgg11"), load_array("tpu-v3-8"), 512, DEPLOYED)
    assert not list(with_branches(straight, 0.0))


def of_alike_nodes(chain: Chain, picks: tuple[int, ...]) -> bool:
    """Whether all nodes that cost the same have the same state."""
    states = dict(zip(map(id, chain.nodes), picks, strict=True))
    return all(states[id(costs)] == pick for costs, pick in zip(chain.nodes, picks, strict=True))


@pytest.mark.parametrize("weight", [pytest.param(0.0, marks=pytest.mark.slow), 0.5])
def test_blocks_that_repeat_have_one_state(weight: float) -> None:
    """Two blocks of two convolutions and a shortcut: the least of all layouts with both alike."""
    net = Builder("blocks", 64, 8, 8)
    net.conv("first", 64, 3, 1, 1)
    before = "first"
    for block in range(2):
        net.conv(f"one{block}", 64, 3, 1, 1)
        net.conv(f"two{block}", 64, 3, 1, 1)
        net.add(f"add{block}", before, f"two{block}")
        before = f"add{block}"
    board = load_array("tpu-v3-8", ["devices.0.chip.cores=1"])
    chain = chain_on(net.build(), board, 64, DEPLOYED)
    (picks, _) = with_branches(chain, weight)
    assert of_alike_nodes(chain, picks)
    everything = [np.arange(len(costs.states)) for costs in chain.nodes]
    factors = list(_factors(chain, weight, everything))

    def seconds(layout: tuple[int, ...]) -> float:
        return sum(float(f.table[tuple(layout[v] for v in f.scope)]) for f in factors)

    kinds = list(dict.fromkeys(map(id, chain.nodes)))
    sizes = [len(next(c for c in chain.nodes if id(c) == kind).states) for kind in kinds]
    least_s = min(
        seconds(tuple(layout[kinds.index(id(costs))] for costs in chain.nodes))
        for layout in product(*map(range, sizes))
    )
    assert seconds(picks) == pytest.approx(least_s)


def test_pairs_are_weighed_as_they_are_asked_for() -> None:
    chain = chain_on(load_network("alexnet"), load_array("tpu-v3-8"), 512, DEPLOYED)
    none, half, full = (chain.pair(1, weight) for weight in (0.0, 0.5, 1.0))
    assert half == pytest.approx((none + full) / 2)
    assert (none > full).any()
    assert chain.pair(1, 0.0) == pytest.approx(none)


def test_two_nodes_with_one_state_cost_what_is_on_the_diagonal() -> None:
    table = np.array([[1.0, 2.0], [3.0, 4.0]])
    joined = _joined(Factor((1, 2), table), [0, 5, 5])
    assert (joined.scope, joined.table.tolist()) == ((5,), [1.0, 4.0])
    apart = _joined(Factor((0, 2), table), [0, 5, 5])
    assert apart.scope == (0, 5)
    assert (apart.table == table).all()


def test_a_forward_pass_costs_nothing_else() -> None:
    """On one core AlexNet holds its weights, of two bytes each, and no features to go back by."""
    network, whole = load_network("alexnet"), load_array("tpu-v3-8")
    chain = chain_on(network, whole, 64, replace(DEPLOYED, mode="inference"))
    assert not any(chain.waits.backward)
    for costs in chain.nodes:
        left = costs.backward_s, costs.gradient_s, costs.update_s, costs.backward_sums_s
        assert all(not seconds.any() for seconds in (*left, costs.stream_s))
        assert costs.forward_s.all()
    one = Cores(whole.part(0, 1), whole.group.kinds[0][0], 0, 0)
    alone = Tables(network, 64, one, replace(DEPLOYED, mode="inference"))
    held = sum(float(costs.held_bytes[0]) for costs in alone.nodes)
    assert held == pytest.approx(2 * network.parameters, rel=0.01)
