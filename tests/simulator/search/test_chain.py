"""The least sum over all states, by going through all of them."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hardware import Array, load_array
from simulator import DEPLOYED, Execution
from simulator.search.layouts import first_cores
from simulator.search.relaxation import Chain
from simulator.search.tables import Cores, Tables
from tests.simulator.search.cases import BATCHES, EXECUTIONS, chains, like_cores
from workloads import Network, load_network

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
def test_the_least_of_all_sums(
    network: Network, whole: Array, batch: int, execution: Execution, weight: float
) -> None:
    chain = chain_on(network, whole, batch, execution)
    ranges = [range(len(costs.states)) for costs in chain.nodes]
    sums = {picks: chain.seconds(picks, weight) for picks in product(*ranges)}
    found = chain.least(weight)
    assert found.bound_s == pytest.approx(min(sums.values()))
    assert sums[found.picks] == pytest.approx(found.bound_s)


@SLOW
@given(chains(), like_cores(), BATCHES, EXECUTIONS)
def test_the_best_weight_is_the_best_of_many(
    network: Network, whole: Array, batch: int, execution: Execution
) -> None:
    chain = chain_on(network, whole, batch, execution)
    best_s = chain.best()[0].bound_s
    for weight in np.linspace(0, 0.99, 12).tolist():
        assert chain.least(weight).bound_s <= best_s * 1.001


def test_pairs_are_weighed_as_they_are_asked_for() -> None:
    chain = chain_on(load_network("alexnet"), load_array("tpu-v3-8"), 512, DEPLOYED)
    none, half, full = (chain.pair(1, weight) for weight in (0.0, 0.5, 1.0))
    assert half == pytest.approx((none + full) / 2)
    assert (none > full).any()
    assert chain.pair(1, 0.0) == pytest.approx(none)


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
