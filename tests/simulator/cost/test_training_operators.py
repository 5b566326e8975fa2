from collections import Counter

import pytest
from hypothesis import given

from planners.order import Phase
from planners.partition import II, Shard
from simulator.cost.operators import Map, Operator
from simulator.cost.roofline import flops, traffic
from simulator.cost.training_operators import operators
from tests.simulator.shapes import PLAIN, unsplit
from tests.strategies import convolutional_networks, networks
from workloads import Builder, Layer, Network, load_network
from workloads.zoo import NETWORKS

RESNET = load_network("resnet50")


def whole(network: Network, rows: int) -> list[tuple[Operator, Shard]]:
    ops = operators(network)
    return [(op, unsplit(ops.graph[op.node], rows)) for op in ops.schedule()]


def names(maps: tuple[Map, ...]) -> list[str]:
    return [m.tensor for m in maps]


def block() -> Network:
    """A projected bottleneck's last convolution, its join, and what follows."""
    net = Builder("block", 8, 4, 4)
    entry = net.conv("entry", 8, 1)
    net.conv("main", 16, 3, padding=1, after=entry)
    main = net.batch_norm("main.bn")
    net.conv("side", 16, 1, after=entry)
    side = net.batch_norm("side.bn")
    net.add("add", main, side)
    net.relu("relu")
    net.pool("pool", 4, 4, average=True)
    net.flatten("flatten")
    net.fc("fc", 10, bias=True)
    net.softmax("softmax")
    return net.build()


def test_a_block_operator_by_operator() -> None:
    log = [(op.name, names(op.reads), names(op.writes)) for op in operators(block()).schedule()]
    to_add, to_pool, to_fc = (f"gradient of {x}'s input" for x in ("add", "pool", "fc"))
    to_main, to_side, to_softmax = (f"gradient of {x}'s input" for x in ("main", "side", "softmax"))
    summed = "gradient of entry"
    assert log == [
        ("entry forward", ["input"], ["entry"]),
        ("main forward", ["entry"], ["main"]),
        ("main.bn statistics", ["main"], []),
        ("side forward", ["entry"], ["side"]),
        ("side.bn statistics", ["side"], []),
        ("add forward", ["main", "side"], ["add"]),
        ("pool forward", ["add"], ["pool"]),
        ("fc forward", ["pool"], ["fc"]),
        ("softmax forward", ["fc"], ["softmax"]),
        ("softmax backward", ["softmax", "fc"], [to_softmax]),
        ("fc backward", [to_softmax], [to_fc]),
        ("fc gradient", ["pool", to_softmax], []),
        ("pool backward", [to_fc, "add"], [to_pool]),
        ("add backward", [to_pool, "add", "main", "side"], [to_add]),
        ("side backward", [to_add, "side"], [to_side]),
        ("side gradient", ["entry", to_add, "side"], []),
        ("main backward", [to_add, "main"], [to_main]),
        ("main gradient", ["entry", to_add, "main"], []),
        ("entry gradient sum", [to_main, to_side], [summed]),
        ("entry gradient", ["input", summed], []),
        *((f"{name} update", [], []) for name in ("entry", "main", "side", "fc")),
    ]


def test_bytes_of_a_convolution() -> None:
    by_name = {op.name: traffic(op, s, PLAIN) for op, s in whole(block(), 5)}
    read, written, weights = 5 * 8 * 16 * 2, 5 * 16 * 16 * 2, 8 * 16 * 9
    assert by_name["main forward"] == read + written + 2 * weights
    assert by_name["main.bn statistics"] == written
    assert by_name["main backward"] == 2 * written + read + 2 * weights
    assert by_name["main gradient"] == read + 2 * written + 4 * weights
    assert by_name["main update"] == 28 * (weights + 2 * 16)
    assert by_name["fc update"] == 28 * (16 * 10 + 10)


def test_the_table_summed_otherwise() -> None:
    """docs/explanation/operators.md's table, added up for ResNet-50 without any graph."""
    rows, element = 3, 2
    layers = {layer.name: layer for layer in RESNET.layers}
    total = 0.0
    for layer in RESNET.layers:
        i, o = (rows * element * t.elements for t in (layer.input, layer.output))
        if layer.kind == "conv":
            total += i + o + 2 * layer.weights  # forward
            total += o  # statistics
            joined = layer.name.endswith(("conv3", "downsample"))
            total += 0 if joined else 2 * o  # reductions
            total += 0 if layer.name == "conv1" else 2 * o + 2 * layer.weights + i
            total += i + 2 * o + 4 * layer.weights
        elif layer.kind == "add":
            projected = layer.name.replace("add", "downsample") in layers
            last = layer.name == "layer4.2.add"
            total += 3 * o  # forward
            total += (1 if last else 2) * o + o + (2 if projected else 1) * o + o
        elif layer.kind in ("max_pool", "avg_pool"):
            readers = 2 if layer.kind == "max_pool" else 1  # first block: branch and projection
            total += i + o + i + readers * o + i
        elif layer.kind == "fc":
            total += i + o + 2 * layer.weights
            total += o + i + 2 * layer.weights
            total += i + o + 4 * layer.weights
        elif layer.kind == "softmax":
            total += 2 * o + 3 * o
    total += 28 * RESNET.parameters
    assert sum(traffic(op, s, PLAIN) for op, s in whole(RESNET, rows)) == pytest.approx(total)


@pytest.mark.parametrize("name", NETWORKS)
def test_products_are_two_flops_a_multiply_accumulate(name: str) -> None:
    """Backward all but the errors of what the network itself is given; gathers multiply nothing."""
    network = load_network(name)
    done: dict[Phase, float] = dict.fromkeys(Phase, 0.0)
    for op, shard in whole(network, 7):
        done[op.phase] += flops(op, shard)
    assert done[Phase.FORWARD] == pytest.approx(2 * 7 * network.macs)
    assert done[Phase.GRADIENT] == pytest.approx(done[Phase.FORWARD])
    first = next(x for x in network.layers if x.weighted)  # nothing reads its input's gradient
    assert done[Phase.BACKWARD] == pytest.approx(done[Phase.FORWARD] - 2 * 7 * first.macs)


@given(networks())
def test_flops_of_any_graph(network: Network) -> None:
    trained, backward, gradient = set[str](), 0.0, 0.0
    for x in network.layers:
        known = [source in trained for source in x.inputs]
        if x.weighted or any(known):
            trained.add(x.name)
        recurrent = 0.0
        if x.kind in ("lstm", "gru"):
            units = x.output.channels // x.directions
            recurrent = x.output.area * (
                x.weights - x.input.channels * x.weights // (x.input.channels + units)
            )
        backward += x.macs if known[0] else recurrent
        gradient += x.macs if x.weighted or (x.kind == "matmul" and known[1]) else 0
    done: dict[Phase, float] = dict.fromkeys(Phase, 0.0)
    for op, shard in whole(network, 3):
        done[op.phase] += flops(op, shard)
    assert done[Phase.FORWARD] == pytest.approx(6 * network.macs)
    assert done[Phase.BACKWARD] == pytest.approx(6 * backward)
    assert done[Phase.GRADIENT] == pytest.approx(6 * gradient)


def check_every_operator_once(network: Network) -> None:
    ops = operators(network)
    assert len(ops.nodes) == len(ops.graph)
    for i, node in enumerate(ops.nodes):
        for phase in Phase:
            assert all(op.node == i and op.phase == phase for op in node.of(phase))
    count = Counter(op.name for op in ops.schedule())
    assert not [name for name, times in count.items() if times > 1]
    for layer in network.layers:
        check_layer(layer, count)
    updated = sum(traffic(op, s, PLAIN) for op, s in whole(network, 1) if op.phase is Phase.UPDATE)
    assert updated == pytest.approx(28 * network.parameters)


def check_layer(layer: Layer, count: Counter[str]) -> None:
    norm = layer.kind == "batch_norm"
    assert count[f"{layer.name} forward"] == (not layer.type.in_passing(layer))
    assert count[f"{layer.name} statistics"] == norm
    assert count[f"{layer.name} gradient"] == (layer.weighted or layer.kind == "matmul")
    assert norm or not count[f"{layer.name} reductions"]


def check_order(network: Network) -> None:
    """Whatever is read has been written, unless it is the input; every gradient has a reader."""
    written, read = {"input"}, set[str]()
    for op in operators(network).schedule():
        assert {*names(op.reads)} <= written, op.name
        assert not {*names(op.writes)} & written, op.name
        written |= {*names(op.writes)}
        read |= {*names(op.reads)}
    assert not [name for name in written - read if name.startswith("gradient of")]


@pytest.mark.parametrize("name", NETWORKS)
def test_every_operator_of_the_zoo_once(name: str) -> None:
    check_every_operator_once(load_network(name))
    check_order(load_network(name))


@given(convolutional_networks())
def test_every_operator_once_in_order(network: Network) -> None:
    check_every_operator_once(network)
    check_order(network)


@given(networks())
def test_shapes_need_not_fit(network: Network) -> None:
    check_every_operator_once(network)
    check_order(network)


def test_batch_norms_reduce_once_backward() -> None:
    ops = list(operators(RESNET).schedule())
    norms = {x.name for x in RESNET.layers if x.kind == "batch_norm"}
    alone = {n for n in norms if any(op.name == f"{n} reductions" for op in ops)}
    passing = {m for op in ops if op.name.endswith("add backward") for m in names(op.reads)}
    assert {n for n in norms if n.removesuffix(".bn") in passing} == norms - alone
    assert len(norms - alone) == 16 + 4


def test_deep_chains_of_joins_take_no_time() -> None:
    net = Builder("deep", 4, 2, 2)
    last = net.conv("first", 4, 1)
    for i in range(3000):
        last = net.add(f"add{i}", last, last)
    net.fc("fc", 2, after=net.flatten("flatten"))
    ops = operators(net.build())
    (back,) = (op for op in ops.schedule() if op.name == "fc backward")
    (grad,) = (op for op in ops.schedule() if op.name == "first gradient")
    assert back.writes[0].tensor in names(grad.reads)


def test_a_network_that_begins_with_a_norm_and_a_pool() -> None:
    net = Builder("early", 3, 4, 4)
    net.batch_norm("norm")
    net.pool("pool", 2, 2)
    net.conv("conv", 8, 1)
    ops = operators(net.build())
    log = [(op.name, [(m.along is II, m.area) for m in op.reads]) for op in ops.schedule()]
    assert log == [
        ("norm statistics", [(True, 16)]),
        ("pool forward", [(True, 16)]),
        ("conv forward", [(True, 4)]),
        ("conv backward", [(False, 4)]),
        ("pool backward", [(True, 4), (True, 16)]),
        ("norm reductions", [(True, 16), (True, 16)]),
        ("conv gradient", [(True, 4), (False, 4)]),
        ("conv update", []),
    ]
