import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Device, Roofline, load_device
from planners.order import Phase
from planners.partition import II, III, IV, Shard, legal
from simulator.cost.operators import Map, Minor, Moved, Operator
from simulator.cost.roofline import Core, bounds, core_of, cost, costs, flops, map_bytes, traffic
from simulator.cost.training_operators import operators
from tests.effort import calls
from tests.simulator.shapes import BYTES, PLAIN, halves, unsplit
from tests.strategies import convolutional_networks, networks
from workloads import Builder, Network, load_network

TILED = replace(PLAIN, tile=True)
PRODUCT = Operator(
    "conv forward",
    0,
    Phase.FORWARD,
    (Map("in", II, 1.0, 16),),
    (Map("out", III, 1.0, 4),),
    macs=9 * 4,
    pair=Moved(weights=9),
    kernel=9,
)
SHARD = Shard(10, 3, 5)


def test_a_core_has_an_equal_share_of_its_chip() -> None:
    device, _ = load_device("tpu-v3", ["roofline.matrix_efficiency=0.5", "roofline.overhead=3 us"])
    core = core_of(device)
    assert core.flops_per_s == 123e12 / 2 * 0.5
    assert core.hbm_bytes_per_s == pytest.approx(450e9 * 0.75)
    assert core.hbm_capacity_bytes == 16 * 2**30
    assert (core.overhead_s, core.tile, core.pad_matrix_unit) == (3e-6, True, 0)


def test_devices_without_a_table_get_the_assumptions() -> None:
    core = core_of(Device("plain", 1, 4, 4e12, 4e9, 4e9, 1e9))
    plain = Core(1e12, 0.75e9, 1e9, 2e-6, tile=False, pad_matrix_unit=0, bytes=BYTES)
    assert core == replace(plain, attention_flops_per_s=1e12, computed_flops_per_s=1e12)


def test_the_slower_of_computing_and_moving_decides() -> None:
    moved = 10 * 3 * 16 * 2 + 10 * 5 * 4 * 2 + 9 * 2 * 15
    work = 2 * 10 * 4 * 9 * 15
    by_memory = cost(PRODUCT, SHARD, PLAIN)
    assert (by_memory.bytes, by_memory.flops) == (moved, work)
    assert by_memory.seconds == pytest.approx(moved / 1e9)
    slow = replace(PLAIN, flops_per_s=1e6, overhead_s=1.0)
    assert cost(PRODUCT, SHARD, slow).seconds == pytest.approx(work / 1e6 + 1.0)


def test_winograd_is_for_kernels_of_three_by_three() -> None:
    """PRODUCT's kernel has 9 elements; of 1 and of 7 x 1 nothing is saved."""
    slow = replace(PLAIN, flops_per_s=1e6, winograd=2.25)
    plain = cost(PRODUCT, SHARD, replace(slow, winograd=1.0)).seconds
    assert cost(PRODUCT, SHARD, slow).seconds == pytest.approx(plain / 2.25)
    for kernel in (1, 7):
        other = replace(PRODUCT, kernel=kernel)
        assert slow.rate(other) == 1e6
    heads = replace(PRODUCT, each_sample=True)
    assert slow.rate(heads) == 1e6
    for sides, rate in (((3, 3), 2.25e6), ((1, 9), 1e6), ((9, 1), 1e6)):
        net = Builder("one", 4, 12, 12)
        net.conv("conv", 5, sides)
        (forward, *_) = operators(net.build()).nodes[0].forward
        assert slow.rate(forward) == rate


@given(st.floats(1e6, 1e13), st.floats(1e6, 1e12), st.floats(0, 1))
def test_bounds_share_out_all_of_the_time(
    flops_per_s: float, hbm_bytes_per_s: float, overhead_s: float
) -> None:
    core = replace(
        PLAIN, flops_per_s=flops_per_s, hbm_bytes_per_s=hbm_bytes_per_s, overhead_s=overhead_s
    )
    done = costs([PRODUCT, replace(PRODUCT, macs=0.0, steps=7)], SHARD, core)
    by_flops, by_traffic, overheads_s = bounds(done, core)
    assert by_flops + by_traffic + overheads_s == pytest.approx(sum(c.seconds for c in done))
    assert overheads_s == pytest.approx(8 * overhead_s)  # one, and one for each of seven steps
    assert by_traffic >= done[1].bytes / hbm_bytes_per_s  # what has no FLOPs waits for its bytes
    assert (by_flops > 0) == (done[0].flops / flops_per_s >= done[0].bytes / hbm_bytes_per_s)


@pytest.mark.parametrize("empty", [Shard(0, 3, 5), Shard(10, 0, 5), Shard(10, 3, 0)])
def test_no_rows_or_channels_no_operator(empty: Shard) -> None:
    assert costs([PRODUCT], empty, PLAIN) == []
    assert len(costs([PRODUCT], SHARD, PLAIN)) == 1


@pytest.mark.parametrize(
    ("rows", "channels", "elements"),
    [
        (128, 64, 128 * 64),  # free at 128 rows
        (128, 3, 128 * 8),
        (32, 64, 32 * 128),  # twice as much below
        (8, 64, 8 * 128),
        (4, 256, 8 * 256),
        (64, 192, 64 * 256),
        (130, 256, 136 * 256),
        (0.25, 256, 8 * 256),
    ],
)
def test_tiles_either_way_round(rows: float, channels: float, elements: int) -> None:
    shard = Shard(rows, 1, channels)
    assert map_bytes(Map("x", III, 1.0, 49), shard, TILED) == elements * 49 * 2
    assert map_bytes(Map("x", III, 1.0, 49), shard, PLAIN) == rows * channels * 49 * 2


@given(st.integers(1, 300), st.integers(1, 300))
def test_tiles_counted_one_by_one(rows: int, channels: int) -> None:
    def tiled(tall: int, wide: int) -> int:
        return len(range(0, tall, 8)) * len(range(0, wide, 128)) * 8 * 128

    elements = min(tiled(rows, channels), tiled(channels, rows))
    shard = Shard(rows, channels, 1)
    assert map_bytes(Map("x", II, 1.0, 1), shard, TILED) == elements * 2


@given(st.integers(1, 9), st.integers(2, 300), st.integers(1, 100), st.integers(1, 4))
def test_tiles_of_a_sequence_are_each_samples_own(
    rows: int, positions: int, features: int, heads: int
) -> None:
    """Samples stand beside each other whole; so do heads where each has its features."""

    def least(wide: int) -> int:
        ways = (
            len(range(0, a, 8)) * len(range(0, b, 128)) * 8 * 128
            for a, b in ((positions, wide), (wide, positions))
        )
        return min(ways)

    shard = Shard(rows, 1, features, heads)
    together = Map("x", III, 1.0, positions, minor=Minor.POSITIONS)
    assert map_bytes(together, shard, TILED) == least(features * heads) * rows * 2
    each = Map("x", III, 1.0, positions, minor=Minor.HEADS)
    assert map_bytes(each, shard, TILED) == least(features) * heads * rows * 2


@pytest.mark.parametrize("name", ["gpt2:seq=128", "bert-base:seq=128", "llama3-8b:seq=128"])
def test_one_sample_of_a_transformer_loses_nothing_to_tiles(name: str) -> None:
    """Its positions and features fill tiles whatever the number of samples."""
    ops = operators(load_network(name))
    for rows in (1, 8):
        shards = [unsplit(node, rows) for node in ops.graph]
        moved = [
            sum(traffic(op, shards[op.node], core) for op in ops.schedule())
            for core in (PLAIN, TILED)
        ]
        assert moved[1] == pytest.approx(moved[0], rel=2e-3)


def test_fractions_of_samples_and_channels_are_not_padded() -> None:
    device = load_device("tpu-v3", ["roofline.pad_matrix_unit=128"])[0]
    whole, fractions = (core_of(device, whole=whole) for whole in (True, False))
    assert (whole.tile, whole.pad_matrix_unit) == (True, 128)
    assert fractions == replace(whole, tile=False, pad_matrix_unit=0)


def test_parts_of_channels_do_not_round_up_by_accident() -> None:
    ninth = Map("x", III, 1.1 / 0.1 / 11, 1)  # 1.0000000000000002
    assert map_bytes(ninth, Shard(8, 1, 128), TILED) == 8 * 128 * 2


def test_the_matrix_unit_is_filled_whole() -> None:
    wide = replace(PRODUCT, macs=1.0, kernel=1.0)
    assert flops(wide, Shard(10, 100, 130), unit=128) == 2 * 10 * 128 * 256
    assert flops(wide, Shard(10, 128, 256), unit=128) == flops(wide, Shard(10, 128, 256))
    # 9 x 3 summed over fits one unit; backward 9 x 5 are summed over and 3 columns remain
    assert flops(PRODUCT, SHARD, 128) == pytest.approx(2 * 10 * 4 * 128 * 128)
    backward = replace(PRODUCT, phase=Phase.BACKWARD)
    assert flops(backward, Shard(10, 3, 100), 128) == pytest.approx(2 * 10 * 4 * 1024 * 128)


@given(convolutional_networks(), st.integers(1, 40), st.integers(2, 5))
def test_halves_of_the_rows_move_the_same_maps(network: Network, rows: int, parts: int) -> None:
    """Untiled maps are split exactly; what is left over is each core's copy of the weights."""
    ops = operators(network)
    for op in ops.schedule():
        node = ops.graph[op.node]
        whole = Shard(rows * parts, node.in_channels, node.out_channels)
        part = whole._replace(rows=rows)
        weights = traffic(replace(op, reads=(), writes=()), part, PLAIN)
        split = parts * (traffic(op, part, PLAIN) - weights) + weights
        assert split == pytest.approx(traffic(op, whole, PLAIN))
        assert parts * flops(op, part) == pytest.approx(flops(op, whole))


def found(part: Shard, whole: Shard) -> Shard:
    """What operators find of a part: of half of all positions half as many samples."""
    positions = part.positions / whole.positions
    return part._replace(rows=part.rows * positions, positions=positions)


@given(networks(), st.integers(1, 40), st.sampled_from((0.5, 0.25, 0.7)), st.data())
def test_the_parts_of_any_legal_split(
    network: Network, rows: int, share: float, data: st.DataObject
) -> None:
    """FLOPs are shared out exactly; nothing is read or written less than once."""
    ops = operators(network)
    for node, work in zip(ops.graph, ops.nodes, strict=True):
        shard = unsplit(node, rows)
        kind = data.draw(st.sampled_from(legal(node)))
        parts = [found(part, shard) for part in halves(node, shard, kind, share)]
        shard = found(shard, shard)
        for op in (*work.forward, *work.backward, *work.gradient, *work.update):
            replicated = node.join and kind is III
            done = sum(flops(op, part) for part in parts)
            assert done == pytest.approx(flops(op, shard) * (2 if replicated else 1))
            for core in (PLAIN, TILED):
                moved = [traffic(op, part, core) for part in parts]
                assert sum(moved) >= traffic(op, shard, core) * (1 - 1e-9)
                assert max(moved) <= traffic(op, shard, core) * (1 + 1e-9)
            if kind is IV and op.phase is not Phase.UPDATE:
                moved = [traffic(op, part, PLAIN) for part in parts]
                assert sum(moved) == pytest.approx(traffic(op, shard, PLAIN))


@given(networks(), st.integers(1, 300), st.booleans())
def test_never_below_the_bounds(network: Network, rows: int, tile: bool) -> None:
    device = Device("d", 1, 1, 1e12, 1e12, 1e10, 1e9, roofline=Roofline(tile=tile))
    core, ops = core_of(device), operators(network)
    for op in ops.schedule():
        shard = unsplit(ops.graph[op.node], rows)
        took = cost(op, shard, core)
        assert took.seconds >= core.overhead_s + max(took.flops / 1e12, took.bytes / 1e10)
        assert took.bytes >= traffic(op, shard, PLAIN) * (1 - 1e-12)
        padded = cost(op, shard, replace(core, pad_matrix_unit=128))
        assert math.isclose(padded.bytes, took.bytes)
        assert padded.seconds >= took.seconds


def test_steps_in_time_have_an_overhead_each() -> None:
    slow = replace(PLAIN, overhead_s=1.0)
    once, often = (cost(replace(PRODUCT, steps=n), SHARD, slow).seconds for n in (1, 50))
    assert often == pytest.approx(once + 49)


def test_each_group_has_a_matrix_of_its_own() -> None:
    depthwise = Shard(10, 1, 1, 32)
    assert flops(PRODUCT, depthwise) == 2 * 10 * 9 * 4 * 32
    assert flops(PRODUCT, depthwise, 128) == pytest.approx(2 * 10 * 4 * 128 * 128 * 32)


def test_an_operator_is_costed_in_a_few_calls() -> None:
    ops, core = operators(load_network("resnet50")), core_of(load_device("tpu-v3")[0])
    shards = [Shard(32, node.in_channels, node.out_channels) for node in ops.graph]
    schedule = list(ops.schedule())
    assert calls(lambda: [cost(op, shards[op.node], core) for op in schedule]) < 50 * len(schedule)
