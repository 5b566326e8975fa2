"""Products that are kept: the same as made anew, whoever asks."""

import math
from dataclasses import replace

import pytest

from hardware import load_array
from planners import PLANNERS, TIME
from planners.order import Phase
from planners.partition import Shard
from simulator import DEPLOYED, Execution
from simulator.cost.roofline import core_of, costs
from simulator.cost.training_operators import operators
from simulator.lowering.models import rules_of
from simulator.lowering.step.products import products_of
from workloads import load_network

NETWORK = load_network("gpt2:seq=64")
ARRAY = DEPLOYED.planned(load_array("tpu-v3-8"))
((DEVICE, _),) = ARRAY.group.kinds


def shard(v: int, rows: int) -> Shard:
    node = operators(NETWORK).graph[v]
    inputs, outputs = (n // node.groups for n in (node.in_channels, node.out_channels))
    return Shard(rows, inputs, outputs, node.groups)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("rows", [1, 8])
def test_they_are_the_sums_of_their_operators(phase: Phase, rows: int) -> None:
    products, core = products_of(NETWORK, DEVICE, DEPLOYED), core_of(DEVICE)
    step = operators(NETWORK)
    for v, node in enumerate(step.graph):
        found, done = (
            products.of(v, phase, shard(v, rows), 1.0, in_parts=False),
            costs(step.nodes[v].of(phase), shard(v, rows), core),
        )
        if not done:
            assert found is None
            continue
        assert found is not None
        assert (found.layer, found.phase) == (node.name, phase)
        assert found.duration_ps == math.ceil(math.fsum(c.seconds for c in done) * 1e12 - 1e-6)
        assert found.flops == math.fsum(c.flops for c in done)
        assert found.hbm_bytes == math.fsum(c.bytes for c in done)


def test_other_devices_and_ways_have_others() -> None:
    first = products_of(NETWORK, DEVICE, DEPLOYED)
    assert products_of(NETWORK, DEVICE, Execution("deployed", recompute="full")) is not first
    assert products_of(NETWORK, DEVICE, DEPLOYED) is first
    exact = products_of(NETWORK, DEVICE, Execution("deployed", whole_shards=False))
    assert exact is not first
    assert exact.core != first.core
    ((slower, _),) = DEPLOYED.planned(load_array("tpu-v2-8")).group.kinds
    assert products_of(NETWORK, slower, DEPLOYED) is not first


def test_a_part_of_the_update_takes_less() -> None:
    products = products_of(NETWORK, DEVICE, DEPLOYED)
    whole, half = (
        products.of(1, Phase.UPDATE, shard(1, 4), part, in_parts=False) for part in (1.0, 0.5)
    )
    assert whole is not None
    assert half is not None
    assert half.hbm_bytes == pytest.approx(whole.hbm_bytes / 2, rel=0.05)
    assert half.duration_ps < whole.duration_ps


@pytest.mark.parametrize(("in_parts", "cleared"), [(False, 1.0), (True, 0.5)])
def test_a_buffer_of_gradients_is_cleared_whole(in_parts: bool, cleared: float) -> None:
    """By each of those that share an update out, but where gradients are there in parts."""
    kept = replace(DEVICE, arithmetic=replace(DEVICE.arithmetic, gradient_buffer=True))
    own, without = (products_of(NETWORK, one, DEPLOYED) for one in (kept, DEVICE))
    of = (1, Phase.UPDATE, shard(1, 4), 0.5)
    more, less = (one.of(*of, in_parts=in_parts) for one in (own, without))
    assert more is not None
    assert less is not None
    weights = operators(NETWORK).nodes[1].pair_parameters * shard(1, 4).inputs * shard(1, 4).outputs
    written = cleared * weights * kept.arithmetic.gradient_bytes
    assert more.hbm_bytes - less.hbm_bytes == pytest.approx(written, rel=0.01)


def test_a_node_takes_all_its_phases_one_after_the_other() -> None:
    plan = PLANNERS["data_parallel"](NETWORK, ARRAY, 8, TIME)
    rules = rules_of(NETWORK, plan, ARRAY, DEPLOYED, folded=True)
    for v in range(len(operators(NETWORK).graph)):
        for rows, updated in ((4, 1.0), (4, 0.5), (2, 1.0), (4, 1.0)):
            of = shard(v, rows), DEVICE, updated
            each = [rules.product_ps(v, phase, *of) for phase in Phase]
            assert rules.node_ps(v, *of) == sum(each) > 0
