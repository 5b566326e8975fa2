from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import load_device
from planners.steps import Phase
from simulator.memory import memory_use, parameters
from simulator.roofline import Core, core_of, map_bytes
from simulator.shards import Shard
from simulator.traffic import Map, Operator, Operators, operators
from tests.strategies import convolutional_networks
from workloads import Builder, Network, load_network

CORE = Core(1e12, 1e9, 1e9, 0.0, tile=False, pad_matrix_unit=0)


def whole(ops: Operators, rows: float) -> list[Shard]:
    return [Shard(rows, node.in_channels, node.out_channels) for node in ops.graph]


def oracle(ops: Operators, shards: Sequence[Shard]) -> list[float]:
    """At each operator, everything is looked up anew: who touched it before, who will after."""
    mine = [op for op in ops.schedule() if not shards[op.node].empty]
    total = []
    for now in range(len(mine)):
        held = 0.0
        for v, shard in enumerate(shards):
            if not shard.empty:
                count = parameters(ops, v, shard)
                held += 10 * count
                held += 4 * count if gradient_lives(mine, v, now) else 0
        keys = {k for op in mine for k in copies(op, shards)}
        held += sum(size for *key, size in keys if lives(mine, shards, key, now))
        total.append(held)
    return total


def copies(op: Operator, shards: Sequence[Shard]) -> set[tuple[str, float, float, float]]:
    shard = shards[op.node]
    return {key(m, shard) for m in (*op.reads, *op.writes)}


def key(tensor: Map, shard: Shard) -> tuple[str, float, float, float]:
    channels = tensor.channels * (shard.inputs if tensor.of_input else shard.outputs)
    row = round(channels * shard.groups * tensor.area, 3)
    return tensor.tensor, shard.rows, row, map_bytes(tensor, shard, tile=False)


def lives(mine: list[Operator], shards: Sequence[Shard], copy: list[object], now: int) -> bool:
    """From the first operator that touches this copy to the last that does or copies it."""
    name = copy[0]
    touched = [[list(k[:3]) for k in copies(op, shards) if k[0] == name] for op in mine]
    own = [i for i, found in enumerate(touched) if copy in found]
    written = [i for i, op in enumerate(mine) if name in [m.tensor for m in op.writes]]
    if written and own[0] == written[0]:  # others are made from this one
        others = {tuple(k) for found in touched for k in found if k != copy}
        own += [next(i for i, f in enumerate(touched) if list(k) in f) for k in others]
    return min(own) <= now <= max(own)


def gradient_lives(mine: list[Operator], node: int, now: int) -> bool:
    phases = [(i, op.phase) for i, op in enumerate(mine) if op.node == node]
    last = [i for i, phase in phases if phase is Phase.UPDATE]
    if not last:
        return False
    product = [i for i, phase in phases if phase is Phase.GRADIENT]
    backward = [i for i, phase in phases if phase is Phase.BACKWARD]
    start = product[-1] if product else (backward or last)[0]
    return start <= now <= last[0]


@given(convolutional_networks(most=8), st.data())
def test_the_brute_force_agrees(network: Network, data: st.DataObject) -> None:
    ops = operators(network)
    parts = st.sampled_from((0.0, 0.25, 0.5, 1.0, 1.0, 1.0))
    shards = [
        Shard(6 * data.draw(parts), node.in_channels * data.draw(parts), node.out_channels)
        for node in ops.graph
    ]
    assert memory_use(ops, shards, CORE).series == pytest.approx(oracle(ops, shards))


def chain() -> Operators:
    net = Builder("chain", 2, 4, 4)
    net.conv("a", 4, 1)
    net.relu("relu")
    net.conv("b", 8, 1)
    net.pool("pool", 4, 4)
    net.flatten("flatten")
    net.fc("c", 3)
    return operators(net.build())


def test_a_chain_by_hand() -> None:
    """Per row: input 64 B, a 128, b 256, pool 16, c 6; weights 8, 32, 24."""
    use = memory_use(chain(), whole(chain(), 1), CORE)
    assert use.held_bytes == 10 * 64
    log = dict(zip(use.operators, (x - 10 * 64 for x in use.series), strict=True))
    assert log == {
        "a forward": 64 + 128,
        "b forward": 64 + 128 + 256,
        "pool forward": 64 + 128 + 256 + 16,
        "c forward": 64 + 128 + 256 + 16 + 6,
        "c backward": 64 + 128 + 256 + 16 + 6 + 16,
        "c gradient": 64 + 128 + 256 + 16 + 6 + 16 + 4 * 24,
        "pool backward": 64 + 128 + 256 + 16 + 256 + 4 * 24,
        "b backward": 64 + 128 + 256 + 128 + 4 * 24,
        "b gradient": 64 + 128 + 256 + 128 + 4 * 24 + 4 * 32,
        "a gradient": 64 + 128 + 128 + 4 * 64,
        "a update": 4 * 64,
        "b update": 4 * 56,
        "c update": 4 * 24,
    }
    assert use.operator == "pool backward"
    assert use.peak_bytes == 10 * 64 + 64 + 128 + 256 + 16 + 256 + 4 * 24


def test_another_part_of_a_tensor_is_another_copy() -> None:
    """b reads all rows of half the channels where a wrote half the rows of all channels."""
    ops = chain()
    a, b, c = whole(ops, 1)
    split = [Shard(0.5, a.inputs, a.outputs), Shard(1, b.inputs / 2, b.outputs), c]
    use = memory_use(ops, split, CORE)
    log = dict(zip(use.operators, (x - use.held_bytes for x in use.series), strict=True))
    assert log["a forward"] == 32 + 64
    assert log["b forward"] == 32 + 64 + 64 + 256
    assert log["a gradient"] == 32 + 64 + 64 + 64 + 4 * (8 + 16 + 24)


def test_what_a_core_does_not_have_it_does_not_hold() -> None:
    ops = chain()
    use = memory_use(ops, [Shard(0, 2, 4), *whole(ops, 1)[1:]], CORE)
    assert not [name for name in use.operators if name.startswith("a ")]
    assert use.held_bytes == 10 * 56
    idle = memory_use(ops, [Shard(0, 1, 1)] * 3, CORE)
    assert (idle.series, idle.peak_bytes, idle.operator, idle.fits) == ((), 0, "", True)


def test_an_order_of_ones_own() -> None:
    ops = chain()
    late = [op for op in ops.schedule() if op.phase is not Phase.GRADIENT]
    late[-3:-3] = [op for op in ops.schedule() if op.phase is Phase.GRADIENT]
    use = memory_use(ops, whole(ops, 1), CORE, late)
    assert sorted(use.operators) == sorted(op.name for op in ops.schedule())
    log = dict(zip(use.operators, use.series, strict=True))
    kept = 16 + 6  # what the last layer's gradient still has to read
    assert log["pool backward"] == 10 * 64 + 64 + 128 + 256 + 16 + 256 + kept


def test_resnet50_fits_where_it_was_run() -> None:
    """MLPerf ran 128 samples on each 8 GiB core of TPU v2; twice as many do not fit."""
    ops = operators(load_network("resnet50"))
    core = core_of(load_device("tpu-v2")[0])
    small, large = (memory_use(ops, whole(ops, rows), core) for rows in (128, 256))
    assert small.fits
    assert not large.fits
    assert large.operator == "layer4.2.add backward"
    assert str(large) == "peak 8.56 GiB of 8.00 GiB a core, at layer4.2.add backward"
