"""Core, stream and ports together: every layout by itself, and all of them at once."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hardware import Array, load_array
from planners import TIME
from planners.partition import I
from planners.plan.updates import UPDATE_ORDERS
from simulator import DEPLOYED, Execution, simulate
from simulator.planning.chain import Chain
from simulator.planning.costs import Costs
from simulator.planning.earliest import earliest_s
from simulator.planning.least import Size, at_most_s, least_s
from simulator.planning.narrowed import by_pairs, by_themselves
from simulator.planning.placements import Piece, Placement, blank
from simulator.planning.ports import Ports
from tests.simulator.planning.cases import BATCHES, chains, like_cores
from tests.simulator.planning.matrix import CLUSTER
from tests.simulator.planning.test_chain import chain_on
from workloads import Builder, Network, load_network, partition_graph

SLOW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
BUCKETS = st.sampled_from((0.0, 1e5, 25.0 * 2**20))
FOREVER = 1e9


def alone(chain: Chain, picks: tuple[int, ...]) -> Chain:
    """The chain of one layout."""
    nodes = []
    for costs, pick in zip(chain.nodes, picks, strict=True):
        states = costs.states
        one = replace(
            states,
            types=states.types[[pick]],
            masks=states.masks[:, [pick]],
            counts=states.counts[:, [pick]],
        )
        nodes.append(Costs(one, *(values[[pick]] for values in costs[1:])))
    return Chain(chain.tables.with_nodes(nodes), sure=True)


@SLOW
@given(chains(4), like_cores(4), BATCHES, BUCKETS, st.data())
def test_no_layout_ends_before_its_own_labels_say(
    network: Network, whole: Array, batch: int, bucket: float, data: st.DataObject
) -> None:
    """One layout, without any other one that hides it: simulated, it takes no less."""
    execution = Execution("deployed", bucket_bytes=bucket)
    chain = chain_on(network, whole, batch, execution, sure=True)
    picks = tuple(data.draw(st.integers(0, len(costs.states) - 1)) for costs in chain.nodes)
    found_s = earliest_s(alone(chain, picks), Ports(chain.tables.curves), FOREVER)
    assert found_s <= simulated_s(network, whole, batch, execution, chain, picks) * (1 + 1e-9)


def simulated_s(
    network: Network,
    whole: Array,
    batch: int,
    execution: Execution,
    chain: Chain,
    picks: Sequence[int],
) -> float:
    """What the step of a layout takes, updated in the better order."""
    types = tuple(c.states.at(pick) for c, pick in zip(chain.nodes, picks, strict=True))
    array = execution.planned(whole)
    ((device, _),) = array.group.kinds
    like = blank(network.name, [node.name for node in partition_graph(network)], batch, TIME)
    plan = Placement((Piece(device, array.group.size, types),), (1.0,)).plan(array, like)
    plans = (replace(plan, update_order=order) for order in UPDATE_ORDERS)
    return min(simulate(network, one, whole, execution).iteration_s for one in plans)


@pytest.mark.parametrize("name", ["lenet", "alexnet"])
@pytest.mark.parametrize("bucket", [0.0, 1e6, 1e9])
def test_labels_of_a_cluster_are_near_and_never_above(name: str, bucket: float) -> None:
    """On four nodes of eight: few types a layout, so that layers share ports and buckets."""
    network, whole = load_network(name), load_array(str(CLUSTER))
    execution = Execution("deployed", bucket_bytes=bucket)
    chain = chain_on(network, whole, 512, execution, sure=True)
    ports, draw, near = Ports(chain.tables.curves), np.random.default_rng(5), list[float]()
    for _ in range(25):
        few = draw.integers(0, 3, (2, 5)).tolist()
        picks = tuple(
            costs.states.numbers.get(tuple(few[draw.integers(2)]), 0) for costs in chain.nodes
        )
        step_s = simulated_s(network, whole, 512, execution, chain, picks)
        near.append(earliest_s(alone(chain, picks), ports, FOREVER) / step_s)
    assert max(near) <= 1 + 1e-9
    assert max(near) >= 0.95


def test_updates_behind_the_stream_are_counted() -> None:
    """By samples, the first layer's gradient is the largest, and the last to arrive."""
    net = Builder("wide first", 4096, 1, 1)
    net.flatten("flatten")
    net.fc("wide", 4096)
    net.fc("narrow", 64)
    network, whole, execution = (
        net.build(),
        load_array("tpu-v3-8"),
        replace(DEPLOYED, bucket_bytes=0.0),
    )
    chain = chain_on(network, whole, 64, execution, sure=True)
    picks = tuple(costs.states.numbers[I, I, I] for costs in chain.nodes)
    found_s = earliest_s(alone(chain, picks), Ports(chain.tables.curves), FOREVER)
    step_s = simulated_s(network, whole, 64, execution, chain, picks)
    assert 0.999 * step_s <= found_s <= step_s


@SLOW
@given(chains(2), like_cores(4), BATCHES, BUCKETS)
def test_all_at_once_take_no_more_than_each(
    network: Network, whole: Array, batch: int, bucket: float
) -> None:
    """Labels that are sorted together lose nothing that one layout needs."""
    chain = chain_on(network, whole, batch, Execution("deployed", bucket_bytes=bucket), sure=True)
    ports = Ports(chain.tables.curves)
    every = product(*(range(len(costs.states)) for costs in chain.nodes))
    least = min(earliest_s(alone(chain, picks), ports, FOREVER) for picks in every)
    found_s = earliest_s(chain, ports, FOREVER)
    assert chain.least(0.0).bound_s * (1 - 1e-9) <= found_s <= least * (1 + 1e-9)


@SLOW
@given(chains(3), like_cores(4), BATCHES, BUCKETS)
def test_states_that_are_left_out_do_not_matter(
    network: Network, whole: Array, batch: int, bucket: float
) -> None:
    """With fewer states fewer labels become one: nothing is lost, and some is won."""
    chain = chain_on(network, whole, batch, Execution("deployed", bucket_bytes=bucket), sure=True)
    size = Size(chain.tables, filled=False)
    whole_s = max(chain.best()[0].bound_s, earliest_s(chain, size.ports, FOREVER))
    found_s = least_s([size])
    assert found_s >= chain.best()[0].bound_s * (1 - 1e-9)
    assert found_s >= 0.95 * whole_s
    assert at_most_s([size], found_s / 2) == found_s / 2


def test_no_state_is_left_out_that_a_layout_below_the_limit_has() -> None:
    board = load_array("tpu-v3-8", ["devices.0.chip.cores=1"])
    chain = chain_on(load_network("lenet"), board, 64, DEPLOYED)
    ranges = [range(len(costs.states)) for costs in chain.nodes]
    limit_s = 1.1 * chain.least(0.0).bound_s
    some = by_themselves(chain, limit_s)
    assert some is not None
    fewer = by_pairs(Chain(some), (0.0,), limit_s)
    assert fewer is not None
    kept = [set(map(tuple, costs.states.types.tolist())) for costs in fewer.nodes]
    below = [picks for picks in product(*ranges) if chain.seconds(picks, 0.0) < limit_s]
    assert below
    for v, costs in enumerate(chain.nodes):
        needed = {tuple(costs.states.types[picks[v]].tolist()) for picks in below}
        assert needed <= kept[v]
    assert sum(map(len, kept)) < sum(len(costs.states) for costs in chain.nodes)
    assert by_themselves(chain, 0.0) is None


@pytest.mark.parametrize(
    ("collective", "mask", "times"),
    [
        ("all-reduce", 31, 1.5),
        ("all-reduce", 8, 8.0),
        ("all-gather", 24, 6.0),
        ("all-to-all", 24, 6.0),
    ],
)
def test_what_ports_of_nodes_carry(collective: str, mask: int, times: float) -> None:
    """Four nodes of eight, 50 GB/s a port: by hand, of every byte.

    All 32: each core sends 2 x 3/4 of its eighth, eight cores a node. Pairs of nodes, eight
    at once: the whole of each, once. Four nodes, eight at once: three quarters of each.
    """
    wires = DEPLOYED.planned(load_array(str(CLUSTER)))
    chain = chain_on(load_network("lenet"), load_array(str(CLUSTER)), 512, DEPLOYED)
    assert wires.group.size == 32
    found = Ports(chain.tables.curves).seconds(collective, np.array([mask]), np.array([1e6]))
    assert found.tolist() == pytest.approx([times * 1e6 / 50e9])
