"""Number formats: bytes are numbers times their format's, and FLOPs know nothing of them."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Arithmetic, Device, load_device
from planners.order import Phase
from planners.partition import WHOLE, Shard
from simulator.cost.memory import memory_use, parameters
from simulator.cost.number_bytes import NumberBytes, number_bytes
from simulator.cost.operators import Operators
from simulator.cost.roofline import Core, core_of, cost, flops, map_bytes, traffic
from simulator.cost.training_operators import operators
from tests.planners.slow_sizes import sizes
from tests.simulator.shapes import BYTES, PLAIN, unsplit
from tests.strategies import convolutional_networks, networks
from workloads import Network, load_network
from workloads.zoo import NETWORKS

WIDTHS = st.sampled_from((0.5, 1.0, 2.0, 4.0, 8.0))
NO = st.just(0.0)
FORMATS = st.builds(
    NumberBytes, *[WIDTHS] * 5, buffer=NO, dummy=NO, adding=NO, more=WIDTHS, cleared=WIDTHS
)
NONE = NumberBytes(0, 0, 0, 0, 0)
ALONE = tuple(NONE._replace(**{kind: 1}) for kind in NumberBytes._fields)


def cored(each: NumberBytes, *, tile: bool = False) -> Core:
    return replace(PLAIN, bytes=each, tile=tile)


def shards(ops: Operators, rows: float) -> list[Shard]:
    return [unsplit(node, rows) for node in ops.graph]


@given(networks(), st.integers(1, 200), FORMATS, st.booleans())
def test_bytes_are_numbers_times_their_formats(
    network: Network, rows: int, each: NumberBytes, tile: bool
) -> None:
    """Any operator, any formats: four counts of numbers say it all."""
    ops = operators(network)
    for op in ops.schedule():
        shard = unsplit(ops.graph[op.node], rows)
        counts = [traffic(op, shard, cored(alone, tile=tile)) for alone in ALONE]
        expected = sum(count * size for count, size in zip(counts, each, strict=True))
        assert traffic(op, shard, cored(each, tile=tile)) == pytest.approx(expected, rel=1e-12)
        assert counts[4:8] == [0, 0, 0, 0]  # what is held, or kernels behind it move
        assert counts[8] == (counts[2] if op.macs else 0)  # as many as the product writes


@given(networks(), st.integers(1, 20))
def test_each_phase_moves_its_own_kinds(network: Network, rows: int) -> None:
    """Weights are read forward and backward, gradients of them made between, then updated."""
    kinds = {
        Phase.FORWARD: {"activation", "weight"},
        Phase.BACKWARD: {"activation", "weight"},
        Phase.GRADIENT: {"activation", "gradient", "more"},
        Phase.UPDATE: {"update", "cleared"},
    }
    ops = operators(network)
    for op in ops.schedule():
        shard = unsplit(ops.graph[op.node], rows)
        moved = {
            kind
            for kind, alone in zip(NumberBytes._fields, ALONE, strict=True)
            if traffic(op, shard, cored(alone))
        }
        assert moved <= kinds[op.phase], op.name


@given(convolutional_networks(), st.integers(1, 50))
def test_totals_of_any_convolutional_network(network: Network, rows: int) -> None:
    """Each weight is read forward, read backward where errors go on, and has one gradient."""
    ops = operators(network)

    def total(kind: str, phase: Phase) -> float:
        core = cored(NONE._replace(**{kind: 1}))
        return sum(
            traffic(op, unsplit(ops.graph[op.node], rows), core)
            for op in ops.schedule()
            if op.phase is phase
        )

    trained = {layer.name for layer in network.layers if layer.parameters}
    for layer in network.layers:
        if not trained.isdisjoint(layer.inputs):
            trained.add(layer.name)
    errors = sum(x.weights for x in network.layers if not trained.isdisjoint(x.inputs))
    assert total("weight", Phase.FORWARD) == pytest.approx(network.weights)
    assert total("weight", Phase.BACKWARD) == pytest.approx(errors)
    assert total("gradient", Phase.GRADIENT) == pytest.approx(network.weights)
    assert total("update", Phase.UPDATE) == pytest.approx(network.parameters)


@given(networks(), st.integers(1, 40), FORMATS)
def test_maps_of_half_the_width_are_half_the_bytes(
    network: Network, rows: int, each: NumberBytes
) -> None:
    """4, 2 and 1 B: exactly, tiled or not; tiles are of numbers, not of bytes."""
    ops = operators(network)
    for op in ops.schedule():
        shard = unsplit(ops.graph[op.node], rows)
        for tensor in (*op.reads, *op.writes):
            for tile in (False, True):
                sizes_ = [
                    map_bytes(tensor, shard, cored(each._replace(activation=width), tile=tile))
                    for width in (4.0, 2.0, 1.0)
                ]
                assert sizes_ == [4 * sizes_[2], 2 * sizes_[2], sizes_[2]]


@settings(deadline=None)
@given(networks(5), st.integers(1, 9), FORMATS)
def test_memory_is_maps_gradients_and_state_each_in_its_format(
    network: Network, rows: int, each: NumberBytes
) -> None:
    """At every operator of the step; what an update moves is not held."""
    ops = operators(network)
    held = [memory_use(ops, shards(ops, rows), cored(alone)).series for alone in ALONE]
    found = memory_use(ops, shards(ops, rows), cored(each))
    for i, size in enumerate(found.series):
        expected = sum(kind[i] * width for kind, width in zip(held, each, strict=True))
        assert size == pytest.approx(expected)
    maps, weights, gradients, update, state, buffer, dummy, *moved = held
    assert not any(weights)
    assert not any(map(any, (update, *moved)))
    assert max(dummy, default=0.0) <= max(state, default=0.0)  # of each shape one
    count = sum(parameters(ops, v, shard) for v, shard in enumerate(shards(ops, 1)))
    assert state == buffer == pytest.approx([count] * len(state))
    assert max(gradients) == pytest.approx(count)  # all of them, when backward is done
    assert min(maps) >= 0


@pytest.mark.parametrize("name", ["lenet", "resnet18", "gpt2:seq=8", "gnmt:seq=4"])
def test_a_peak_of_twice_as_wide_numbers_is_twice_as_high(name: str) -> None:
    ops = operators(load_network(name))
    narrow, wide = (
        memory_use(ops, shards(ops, 4), cored(number_bytes(Arithmetic(width))))
        for width in (4.0, 8.0)
    )
    assert wide.series == tuple(2 * size for size in narrow.series)
    assert (wide.peak_bytes, wide.held_bytes) == (2 * narrow.peak_bytes, 2 * narrow.held_bytes)
    assert wide.operator == narrow.operator


@pytest.mark.parametrize(
    ("element", "held", "moved"),
    [
        (2.0, 2 + 4 + 4, 28),
        (4.0, 4 + 4, 28),
        (8.0, 8 + 8, 56),
    ],
)
def test_cores_of_2_4_and_8_bytes(element: float, held: float, moved: float) -> None:
    """From the spec to the operator: maps, weights, gradients, state and update of ResNet-18."""
    device, _ = load_device("tpu-v3", [f"arithmetic.element={element:g} B", "roofline.tile=false"])
    core, ops = core_of(device), operators(load_network("resnet18"))
    by_name = {op.name: (op, unsplit(ops.graph[op.node], 5)) for op in ops.schedule()}

    def bytes_of(name: str) -> float:
        return traffic(*by_name[name], core)

    into, out, weights = 5 * 3 * 224 * 224, 5 * 64 * 112 * 112, 64 * 3 * 49
    assert bytes_of("conv1 forward") == element * (into + out + weights)
    norm = element * 2 * out  # the raw output again, for the norm and its ReLU
    gradient = max(4.0, element)
    assert bytes_of("conv1 gradient") == element * into + norm + gradient * weights
    assert bytes_of("conv1 update") == pytest.approx(moved * (weights + 2 * 64))
    use = memory_use(ops, shards(ops, 5), core)
    assert use.held_bytes == pytest.approx(held * load_network("resnet18").parameters)


@given(networks(), st.integers(1, 40), FORMATS)
def test_flops_and_overheads_know_no_formats(
    network: Network, rows: int, each: NumberBytes
) -> None:
    ops = operators(network)
    for op in ops.schedule():
        shard = unsplit(ops.graph[op.node], rows)
        one, other = cost(op, shard, PLAIN), cost(op, shard, cored(each))
        assert (one.flops, one.overhead_s) == (other.flops, other.overhead_s)
        assert one.flops == flops(op, shard)


def test_a_format_with_a_faster_peak_shortens_what_computing_bounds() -> None:
    """Twice the peak halves what FLOPs bound and leaves HBM-bound operators as they are."""
    changes = ["chip.peak_by_format.fp8=246 TFLOP/s", "roofline.overhead=0 s"]
    plain, fp8 = (
        core_of(load_device("tpu-v3", [*changes, f"arithmetic.compute={name}"])[0])
        if name
        else core_of(load_device("tpu-v3", changes)[0])
        for name in ("", "fp8")
    )
    ops = operators(load_network("vgg16"))
    kinds = set()
    for op in ops.schedule():
        shard = unsplit(ops.graph[op.node], 128)
        slow, fast = cost(op, shard, plain), cost(op, shard, fp8)
        assert slow.bytes == fast.bytes
        bound = slow.flops / plain.flops_per_s, slow.bytes / plain.hbm_bytes_per_s
        assert slow.seconds == max(bound)
        assert fast.seconds == max(bound[0] / 2, bound[1])
        kinds.add((bound[0] > bound[1], fast.seconds < slow.seconds))
    assert kinds == {(True, True), (False, False)}


def test_a_device_of_ones_own_has_the_formats_it_says() -> None:
    """Without a spec file: nothing is a mixture unless it is said to be one."""
    wide = Device("wide", 1, 1, 1e12, 1e9, 1e9, 1e9, arithmetic=Arithmetic(4.0))
    mixed = replace(wide, arithmetic=Arithmetic(4.0, activation_bytes=2.0))
    assert core_of(wide).bytes == NumberBytes(4, 4, 4, 28, 8)
    assert core_of(mixed).bytes == NumberBytes(2, 4, 4, 28, 8)
    assert core_of(replace(wide, arithmetic=Arithmetic())).bytes == BYTES


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_and_products_are_the_planners(name: str) -> None:
    """A(W) and FLOPs, written here by pairs of channels and there by the papers' formulas."""
    network = load_network(name)
    ops = operators(network)
    for node, work in zip(ops.graph, ops.nodes, strict=True):
        theirs = sizes(node, 6, WHOLE, fused=True)
        pairs = node.in_channels * node.out_channels / node.groups
        own = work.pair_parameters + work.shared_parameters
        assert own * pairs == pytest.approx(theirs.weights), node.name
        forward = sum(flops(op, unsplit(node, 6)) for op in work.forward)
        assert forward == pytest.approx(theirs.flops[0]), node.name
