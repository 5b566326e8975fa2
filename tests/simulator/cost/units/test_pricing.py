"""Operators on units: the products are the FLOPs, element-wise work and misses by counting."""

from dataclasses import replace
from itertools import product as every

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.api.inputs import network_of
from hardware import MatrixUnit, Units, VectorUnit, load_array, load_device
from planners import load_planner
from planners.order import Phase
from planners.partition import Shard
from simulator import DEPLOYED, simulate
from simulator.cost.operators import Moved, Operator
from simulator.cost.roofline import bounds, core_of, costs, flops
from simulator.cost.training_operators import operators
from simulator.cost.units.pricing import lanes_of, missed_bytes, price, product_of
from simulator.cost.units.product import Product
from workloads import Layer, Tensor, load_network
from workloads.builder import Builder

UNITS = Units(1e9, (MatrixUnit(128, 128),), (VectorUnit(128, 8),), 2.0**24)
NETWORKS = ("lenet", "alexnet", "resnet50", "mobilenet-v2", "bert-base", "gnmt", "gpt2")


@pytest.mark.parametrize("name", NETWORKS)
def test_products_have_the_operators_flops(name: str) -> None:
    """Whatever the layer and the phase: m k n of all repetitions is what the roofline counts."""
    ops = operators(load_network(name))
    seen = set()
    for operator in ops.schedule():
        node = ops.graph[operator.node]
        groups = node.groups
        shard = Shard(8, node.in_channels / groups, node.out_channels / groups, groups)
        if operator.macs:
            seen.add(operator.phase)
            found = product_of(operator, shard)
            assert found.operations == pytest.approx(flops(operator, shard), rel=1e-9)
    assert seen == {Phase.FORWARD, Phase.BACKWARD, Phase.GRADIENT}


def fused_operators(name: str) -> list[tuple[Operator, Shard]]:
    """Those with products of fused attention in the first block, of a core with 4 samples."""
    network = network_of(name, ["attention=fused"], load_array("wham-1"))
    ops, found = operators(network), list[tuple[Operator, Shard]]()
    for one in ops.schedule():
        if one.attention and one.macs and one.name.startswith("layer0."):
            node = ops.graph[one.node]
            each = node.in_channels / node.groups, node.out_channels / node.groups
            found.append((one, Shard(4, *each, node.groups)))
    return found


@pytest.mark.parametrize(
    ("name", "heads", "sides"),
    [
        ("gpt2:layers=1", 12, (1025, 64, 1024)),  # half of them, as it is causal
        ("bert-base", 12, (512, 64, 512)),
        ("deepseek-v3:layers=4:seq=512", 128, (513, 160, 512)),  # 192 features, and 128
    ],
)
def test_fused_attention_is_products_of_heads_and_a_softmax(
    name: str, heads: int, sides: tuple[int, int, int]
) -> None:
    """As without the kernel: two products forward, the scores anew and four more backward."""
    (ahead, shard), (back, _) = fused_operators(name)
    causal = sides[0] != sides[2]
    for operator, products, cycles in ((ahead, 2, 10), (back, 5, 12)):
        found = product_of(operator, shard)
        assert (found.m, found.n) == (sides[0], sides[2])
        assert found.times == products * 4 * heads // (1 + causal)
        assert found.operations == pytest.approx(flops(operator, shard), rel=0.05)
        scores = 4 * heads * sides[0] * sides[2] / (1 + causal)
        assert lanes_of(operator, shard) == pytest.approx(cycles * scores)
    assert product_of(ahead, shard)[1:4] == sides
    assert product_of(ahead, shard).operations == pytest.approx(flops(ahead, shard))


def conv(phase: Phase) -> Operator:
    """3x3 windows on 14 x 14 outputs."""
    return Operator("c", 0, phase, macs=9.0 * 196, pair=Moved(9.0), kernel=9.0)


@pytest.mark.parametrize(
    ("phase", "sides"),
    [
        (Phase.FORWARD, (4 * 196, 9 * 32, 64)),
        (Phase.BACKWARD, (4 * 196, 9 * 64, 32)),
        (Phase.GRADIENT, (9 * 32, 4 * 196, 64)),
    ],
)
def test_a_convolution_is_its_windows_by_its_kernels(
    phase: Phase, sides: tuple[int, int, int]
) -> None:
    assert product_of(conv(phase), Shard(4, 32, 64, 1))[1:] == (*sides, 1)


@pytest.mark.parametrize(
    ("phase", "sides"),
    [
        (Phase.FORWARD, (100, 64, 50)),
        (Phase.BACKWARD, (100, 50, 64)),
        (Phase.GRADIENT, (64, 100, 50)),
    ],
)
def test_heads_have_a_product_for_each_sample(phase: Phase, sides: tuple[int, int, int]) -> None:
    matmul = Operator("m", 0, phase, macs=100.0, each_sample=True)
    assert product_of(matmul, Shard(4, 64, 50, 8))[1:] == (*sides, 32)


def test_a_cell_repeats_a_step_with_its_gates_side_by_side() -> None:
    """An LSTM of 64 to 64 over 10 steps: 4 gates read 64 + 64, as 8 times 64 outputs."""
    cell = Operator("l", 0, Phase.FORWARD, macs=10 * 4 * 2.0, steps=10)
    assert product_of(cell, Shard(16, 64, 64, 1))[1:] == (16, 64, 8 * 64, 10)


@given(*[st.integers(1, 40)] * 3, st.integers(1, 4000))
def test_misses_are_those_of_the_blocks(m: int, k: int, n: int, buffer: int) -> None:
    """Block by block: each needs k columns of some rows, and k rows of some columns."""
    first, second, half = 2 * m * k, 2 * k * n, buffer / 2
    found = missed_bytes(Product("p", m, k, n), 1.0, buffer, 2.0)
    if min(first, second) <= half:
        assert found == 0
        return
    side = max(1, int((half / 4) ** 0.5))
    assert side == 1 or 4 * side * side <= half
    read = 0
    for top, left in every(range(0, m, side), range(0, n, side)):
        read += 2 * k * (min(side, m - top) + min(side, n - left))
    assert found == read - first - second


@pytest.mark.parametrize(
    ("size", "kernel", "stride"), [(10, 4, 2), (9, 3, 1), (11, 3, 2), (5, 5, 1), (9, 1, 2)]
)
def test_an_input_comes_again_as_often_as_its_own_bytes(
    size: int, kernel: int, stride: int
) -> None:
    """Windows counted one by one: those of a convolution with a stride overlap less."""
    build = Builder("n", 3, size, size)
    build.conv("first", 16, 1)
    build.conv("c", 64, kernel, stride=stride)
    build.conv("d", 64, 1)
    ops = {op.name: op for op in operators(build.build()).schedule()}
    starts = range(0, size - kernel + 1, stride)
    along = [i for start in starts for i in range(start, start + kernel)]
    seen = len(along) ** 2
    for phase, moved in (("forward", seen / size**2), ("backward", float(kernel**2))):
        if f"c {phase}" in ops:
            assert ops[f"c {phase}"].repeats == max(1.0, moved)
    forward, shard = ops["c forward"], Shard(4, 16, 64, 1)
    small = replace(UNITS, buffer_bytes=2.0 * 4 * 16**2)  # outputs in blocks of 16 x 16
    made = product_of(forward, shard)
    read = 4 * 16 * 2 * (size**2 if kernel > 1 else len(starts) ** 2)
    weights = kernel**2 * 16 * 64 * 2
    blocks_down, blocks_across = -(-made.m // 16), 64 // 16
    again = read * (blocks_across - 1) + weights * (blocks_down - 1)
    assert price(forward, shard, small).missed_bytes == pytest.approx(again)


def test_the_docstrings_misses() -> None:
    mib = 2**20
    found = missed_bytes(Product("p", 4096, 4096, 4096), 1.0, 8 * mib, 2.0)
    assert found == 3 * 64 * mib


def test_lanes_work_on_elements_and_parameters() -> None:
    relu = Operator("r", 0, Phase.FORWARD, lanes=3.0)
    assert price(relu, Shard(10, 5, 700, 1), UNITS).vector_s == pytest.approx(
        21e-9
    )  # 21,000 / 1024
    update = Operator("u", 0, Phase.UPDATE, pair=Moved(updated=1.0), channel=Moved(updated=2.0))
    found = price(update, Shard(10, 32, 64, 1), UNITS)
    assert found.vector_s == pytest.approx(13e-9)  # 6 (2048 + 128) / 1024
    assert (found.unit, found.matrix_s, found.missed_bytes) == (None, 0.0, 0.0)
    norm = replace(update, entry=Moved(updated=80.0))  # of each of 32 inputs
    found = price(norm, Shard(10, 32, 64, 1), UNITS)
    assert found.vector_s == pytest.approx(28e-9)  # 6 (2048 + 128 + 2560) / 1024 = 27.75


def test_the_best_of_unlike_units_is_taken() -> None:
    large, small = MatrixUnit(256, 256), MatrixUnit(8, 8, 64)
    both = replace(UNITS, matrix=(large, small))
    heads = Operator("m", 0, Phase.FORWARD, macs=64.0, each_sample=True)
    square = Operator("f", 0, Phase.FORWARD, macs=1024.0, pair=Moved(1.0))
    for operator, shard, unit in (
        (heads, Shard(8, 8, 8, 12), 1),
        (square, Shard(4, 512, 512, 1), 0),
    ):
        found = price(operator, shard, both)
        alone = [price(operator, shard, replace(UNITS, matrix=(u,))) for u in (large, small)]
        assert found.unit == unit
        assert found.matrix_s == min(one.matrix_s for one in alone)


def test_fractions_fill_every_multiplier() -> None:
    operator, shard = Operator("f", 0, Phase.FORWARD, macs=1.0, pair=Moved(1.0)), Shard(3, 5, 7, 1)
    exact = price(operator, shard, UNITS, whole=False)
    assert exact.matrix_s == pytest.approx(3 * 5 * 7 / 16384 / 1e9)
    assert price(operator, shard, UNITS).matrix_s > 100 * exact.matrix_s


@pytest.mark.parametrize(
    ("kind", "operator", "forward", "backward"),
    [
        ("relu", "", 1, 1),
        ("softmax", "", 10, 2),
        ("other", "tanh", 27, 2),
        ("other", "gelu", 15, 1),
        ("other", "sqrt", 15, 16),
        ("other", "vocab_parallel_cross_entropy", 10, 2),  # a softmax of the logits
        ("flatten", "", 0, 0),
        ("add", "", 1, 1),
    ],
)
def test_cycles_of_an_element(kind: str, operator: str, forward: int, backward: int) -> None:
    shape = Tensor(4, 2, 2)
    layer = Layer("x", kind, ("input",), shape, shape, operator=operator)
    assert layer.type.element_cycles(layer, forward=True) == forward
    assert layer.type.element_cycles(layer, forward=False) == backward


def test_pools_look_at_their_windows_and_products_at_nothing() -> None:
    shape = Tensor(4, 2, 2)
    pool = Layer("x", "max_pool", ("input",), shape, shape, kernel=3)
    assert pool.type.element_cycles(pool, forward=True) == 9
    product = Layer("x", "conv", ("input",), shape, shape)
    assert product.type.element_cycles(product, forward=True) == 0


def test_a_network_works_on_every_element_once_forward() -> None:
    """All lanes of a forward pass: each layer's own elements, statistics twice."""
    network = load_network("resnet50")
    ops = operators(network)
    lanes = sum(
        operator.lanes * ops.graph[operator.node].out_channels
        for node in ops.nodes
        for operator in node.forward
    )
    by_layer = sum(
        layer.type.element_cycles(layer, forward=True) * layer.output.elements
        + (2 * layer.output.elements if layer.kind == "batch_norm" else 0)
        for layer in network.layers
    )
    assert lanes == pytest.approx(by_layer)


def test_bounds_are_the_units() -> None:
    """An operator that units compute longer than its bytes take is bound by them."""
    core = core_of(load_device("tpu-v2-units")[0])
    (done,) = costs([conv(Phase.FORWARD)], Shard(1, 8, 8, 1), core)
    by_units, by_traffic, overhead = bounds([done], core)
    assert (by_units > 0) != (by_traffic > 0)
    assert by_units + by_traffic + overhead == pytest.approx(done.seconds)
    assert done.compute_s == price(conv(Phase.FORWARD), Shard(1, 8, 8, 1), core.units).busy_s  # type: ignore[arg-type]


def test_a_step_takes_its_units_time_and_its_misses_cross_hbm() -> None:
    network = load_network("vgg16")
    bytes_of, seconds = {}, {}
    for name, changes in {
        "large": ["units.buffer=1 GiB"],
        "small": ["units.buffer=64 KiB"],
        "slow": ["units.buffer=1 GiB", "units.clock=7 MHz"],
    }.items():
        keys = [f"devices.0.{change}" for change in changes]
        array = load_array("tpu-v2-8", ["devices.0.device=tpu-v2-units", *keys])
        plan = load_planner("data_parallel")(network, DEPLOYED.planned(array), 64)
        timeline = simulate(network, plan, array, DEPLOYED)
        bytes_of[name], seconds[name] = timeline.memory_bytes[0], timeline.iteration_s
    assert bytes_of["small"] > 1.1 * bytes_of["large"]
    assert bytes_of["slow"] == bytes_of["large"]
    assert seconds["slow"] > 20 * seconds["large"]
