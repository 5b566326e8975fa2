"""The least sum over all states, by going through all of them."""

from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hardware import Array
from simulator import Execution
from simulator.planning.branches import with_branches
from simulator.planning.chain import Chain
from simulator.planning.layouts import first_cores
from simulator.planning.tables import Tables
from tests.simulator.planning.cases import BATCHES, EXECUTIONS, chains, like_cores
from workloads import Network

SLOW = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
WEIGHTS = st.sampled_from((0.0, 0.3, 0.9))


def chain_on(network: Network, whole: Array, batch: int, execution: Execution) -> Chain:
    array = execution.planned(whole)
    cores = first_cores(array, array.group.kinds[0][0], array.group.size)
    assert cores is not None
    return Chain(Tables(network, batch, cores, execution, hollow=True))


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
    from hardware import load_array
    from simulator import DEPLOYED
    from workloads import load_network

    chain = chain_on(load_network("resnet18"), load_array("tpu-v3-8"), 512, DEPLOYED)
    assert with_branches(chain, 0.0) is not None
    straight = chain_on(load_network("vgg11"), load_array("tpu-v3-8"), 512, DEPLOYED)
    assert with_branches(straight, 0.0) is None
