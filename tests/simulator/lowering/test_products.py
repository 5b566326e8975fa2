"""What a core computes of a node in a phase, by the rules of its step."""

import math
from dataclasses import replace

import pytest

from hardware import Device, load_array
from planners import PLANNERS, TIME
from planners.order import Phase
from planners.partition import Shard
from planners.plan.updates import Update
from simulator import DEPLOYED
from simulator.cost.roofline import core_of, costs
from simulator.cost.training_operators import operators
from simulator.lowering.models import rules_of
from simulator.lowering.step.deployed import Deployed
from workloads import load_network

NETWORK = load_network("gpt2:seq=64")
ARRAY = DEPLOYED.planned(load_array("tpu-v3-8"))
((DEVICE, _),) = ARRAY.group.kinds


def rules(device: Device = DEVICE, *, in_parts: bool = False) -> Deployed:
    """Of data parallelism on this device alone; gradients whole, or in parts."""
    array = ARRAY.with_devices(lambda _: device)
    plan = PLANNERS["data_parallel"](NETWORK, array, 8, TIME)
    if in_parts:
        plan = replace(plan, updates=(Update.GRADIENTS,) * len(plan.nodes))
    found = rules_of(NETWORK, plan, array, DEPLOYED, folded=True)
    assert isinstance(found, Deployed)
    return found


def shard(v: int, rows: int) -> Shard:
    node = operators(NETWORK).graph[v]
    inputs, outputs = (n // node.groups for n in (node.in_channels, node.out_channels))
    return Shard(rows, inputs, outputs, node.groups)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("rows", [1, 8])
def test_they_are_the_sums_of_their_operators(phase: Phase, rows: int) -> None:
    found_by, core = rules(), core_of(DEVICE)
    step = operators(NETWORK)
    for v, node in enumerate(step.graph):
        found, done = (
            found_by.product(v, phase, shard(v, rows), DEVICE),
            costs(step.nodes[v].of(phase), found_by.held(v, shard(v, rows)), core),
        )
        if not done:
            assert found is None
            continue
        assert found is not None
        assert (found.layer, found.phase) == (node.name, phase)
        assert found.duration_ps == math.ceil(math.fsum(c.seconds for c in done) * 1e12 - 1e-6)
        assert found.flops == math.fsum(c.flops for c in done)
        assert found.hbm_bytes == math.fsum(c.bytes for c in done)


def test_a_part_of_the_update_takes_less() -> None:
    whole, half = (
        rules().product(1, Phase.UPDATE, shard(1, 4), DEVICE, part) for part in (1.0, 0.5)
    )
    assert whole is not None
    assert half is not None
    assert half.hbm_bytes == pytest.approx(whole.hbm_bytes / 2, rel=0.05)
    assert half.duration_ps < whole.duration_ps


@pytest.mark.parametrize(("in_parts", "cleared"), [(False, 1.0), (True, 0.5)])
def test_a_buffer_of_gradients_is_cleared_whole(in_parts: bool, cleared: float) -> None:
    """By each of those that share an update out, but where gradients are there in parts."""
    kept = replace(DEVICE, arithmetic=replace(DEVICE.arithmetic, gradient_buffer=True))
    more, less = (
        rules(one, in_parts=in_parts).product(1, Phase.UPDATE, shard(1, 4), one, 0.5)
        for one in (kept, DEVICE)
    )
    assert more is not None
    assert less is not None
    weights = operators(NETWORK).nodes[1].pair_parameters * shard(1, 4).inputs * shard(1, 4).outputs
    written = cleared * weights * kept.arithmetic.gradient_bytes
    assert more.hbm_bytes - less.hbm_bytes == pytest.approx(written, rel=0.01)
