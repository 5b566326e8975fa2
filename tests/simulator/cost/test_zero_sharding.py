"""Memory of weights and gradients in parts, to the byte, operator by operator."""

from __future__ import annotations

from dataclasses import replace

import pytest

import accelarray
from hardware import load_array
from planners.order import Phase
from planners.partition import Shard
from simulator import DEPLOYED
from simulator.cost.memory import MemoryUse, memory_use
from simulator.cost.roofline import core_of
from simulator.cost.training_operators import operators
from simulator.cost.zero_sharding import WHOLE, ZeroSharding
from simulator.engine.operations import CLASSES
from workloads import load_network, partition_graph

NETWORK = load_network("alexnet")
GRAPH = partition_graph(NETWORK)
OWN = [layer.parameters for layer in NETWORK.layers if layer.weighted]
DEVICE = DEPLOYED.planned(load_array("tpu-v3-8")).group.kinds[0][0]
CORE = core_of(DEVICE)  # 2 B a weight, 4 B a gradient, 4 B a master copy and 4 B a moment
UNITS = ((0, 1), (2,), (3, 4, 5), (6, 7))
N = 8


def used(parts: ZeroSharding, *, recompute: str = "none", buffer: float = 0.0) -> MemoryUse:
    ops = operators(NETWORK, recompute=recompute)
    shards = [
        Shard(2, n.in_channels / n.groups, n.out_channels / n.groups, n.groups, n.out_area)
        for n in GRAPH
    ]
    shards = [s._replace(positions=1.0) for s in shards]
    core = replace(CORE, bytes=CORE.bytes._replace(buffer=buffer))
    return memory_use(ops, shards, core, updated=[1 / N] * len(GRAPH), parts=parts)


def unit_of(v: int) -> int:
    return next(k for k, unit in enumerate(UNITS) if v in unit)


def whole_weights(v: int, phase: Phase, *, ahead: bool) -> int:
    """Parameters that are gathered while a node computes: its unit, and the next one to come."""
    if phase is Phase.UPDATE:
        return 0
    k, last = unit_of(v), len(UNITS) - 1
    step = 1 if phase is Phase.FORWARD else -1
    there = {k, k + step} if ahead else {k}
    return sum(OWN[u] for j in there if 0 <= j <= last for u in UNITS[j])


def gradients(use: MemoryUse, at: int, *, parts: bool, ahead: bool) -> float:
    """Bytes of gradients at an operator: whole in its unit and, ahead, in the one behind."""
    found = 0.0
    v_at, phase_at = use.products[at]
    begins = {
        v: i for i, (v, phase) in reversed([*enumerate(use.products)]) if phase is Phase.GRADIENT
    }
    ends = {v: i for i, (v, phase) in enumerate(use.products) if phase is Phase.UPDATE}
    for v, first in begins.items():
        if first <= at <= ends[v]:
            found += 4 * OWN[v] / (N if parts else 1)
            if parts and phase_at is not Phase.UPDATE:
                found += 4 * OWN[v] * (unit_of(v) - unit_of(v_at) in ((0, 1) if ahead else (0,)))
    return found


@pytest.mark.parametrize("ahead", [True, False])
def test_every_operator_to_the_byte(ahead: bool) -> None:
    scattered = tuple(unit[::-1] for unit in reversed(UNITS))
    parts = ZeroSharding(scattered, UNITS, UNITS, ahead)
    plain, use = used(WHOLE), used(parts)
    assert plain.products == use.products
    kept = 2 * sum(OWN) * (1 - 1 / N)
    assert plain.held_bytes - use.held_bytes == pytest.approx(kept)
    assert use.held_bytes == pytest.approx((2 + 4 + 4) * sum(OWN) / N)
    assert use.weight_bytes == pytest.approx(2 * sum(OWN) / N)
    for i, (v, phase) in enumerate(use.products):
        wanted = plain.series[i] - kept + 2 * whole_weights(v, phase, ahead=ahead)
        wanted += gradients(use, i, parts=True, ahead=ahead)
        wanted -= gradients(plain, i, parts=False, ahead=ahead)
        assert use.series[i] == pytest.approx(wanted, rel=1e-12), use.operators[i]


def test_gradients_alone() -> None:
    """Stage 2: weights are whole; so is a gradient until the bucket behind it is full."""
    scattered = tuple(unit[::-1] for unit in reversed(UNITS))
    plain, use = used(WHOLE), used(ZeroSharding(scattered))
    assert use.held_bytes == plain.held_bytes
    for i in range(len(use.products)):
        wanted = plain.series[i] - gradients(plain, i, parts=False, ahead=True)
        wanted += gradients(use, i, parts=True, ahead=True)
        assert use.series[i] == pytest.approx(wanted, rel=1e-12), use.operators[i]


def test_sums_go_on_in_parts() -> None:
    """From one micro-batch to the next an eighth of each gradient stays."""
    scattered = tuple(unit[::-1] for unit in reversed(UNITS))
    use = used(ZeroSharding(scattered, UNITS, UNITS))
    assert use.accumulated == {
        (v, Phase.GRADIENT): pytest.approx(4 * own / N) for v, own in enumerate(OWN)
    }


def test_a_buffer_of_gradients_is_in_parts() -> None:
    scattered = tuple(unit[::-1] for unit in reversed(UNITS))
    use = used(ZeroSharding(scattered), buffer=4.0)
    assert use.gradient_bytes == pytest.approx(4 * sum(OWN) / N)
    assert not use.accumulated
    assert max(use.moving[0]) == 4 * max(
        OWN[3] + OWN[4] + OWN[5] + OWN[6] + OWN[7], OWN[2] + OWN[3] + OWN[4] + OWN[5]
    )


def test_a_table_that_the_head_uses_too_is_gathered_for_it() -> None:
    """2 B for each of GPT-2's 50257 x 768 words, beside the 1/8 that the embedding keeps."""
    network = load_network("gpt2:seq=16")
    graph = partition_graph(network)
    head = len(graph) - 1 if graph[-1].tied is not None else len(graph) - 2
    units = (tuple(range(head)), tuple(range(head, len(graph))))
    found = []
    for nodes in ((), (head,)):
        shards = [Shard(1, n.in_channels / n.groups, n.out_channels / n.groups, n.groups, 1.0)
                  for n in graph]  # fmt: skip
        parts = ZeroSharding((), units, ((), nodes), prefetch=False)
        share = [1 / N] * len(graph)
        found.append(memory_use(operators(network), shards, CORE, updated=share, parts=parts))
    without, there = found
    at = [i for i, (v, phase) in enumerate(there.products) if v == head and phase is Phase.FORWARD]
    more = [there.series[i] - without.series[i] for i in at]
    assert more == pytest.approx([2 * 50257 * 768] * len(at))


@pytest.mark.parametrize("overlap", ["full", "none"])
def test_a_block_computed_again_holds_no_more_weights(overlap: str) -> None:
    """Its first norm rides on the block before, whose weights it does not need."""
    held = {}
    for mode in ("none", "full"):
        step = accelarray.simulate(
            "llama3-8b:layers=6:seq=64:vocab=512",
            array="dgx-h100",
            parallel="dp=8",
            batch=8,
            micro_batch=1,
            zero=3,
            overlap=overlap,
            recompute=mode,
        )
        (memory,) = step.timeline.memory
        held[mode] = dict(zip(CLASSES, memory.by_class, strict=True))["buffers"]
    block = 2 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336)  # bytes of its matrices
    whole = 2 if overlap == "full" else 1
    assert held["none"] == pytest.approx(whole * block, rel=0.05)
    assert held["full"] == pytest.approx(whole * block, rel=0.05)
