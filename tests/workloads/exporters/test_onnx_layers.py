"""Every kind of layer as ONNX: its own checker's shapes, and the layer that comes back."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest

from tests.workloads.layer_types.test_state_space import mixer
from tests.workloads.onnx_models import save
from workloads import Builder, Layer, Network, NetworkError, Tensor, load_network
from workloads.exporters.onnx_model import to_onnx
from workloads.exporters.onnx_writer import KINDS, Layout, dims_of, external
from workloads.layer_types import TYPES


def mapped(build: Callable[[Builder], Any]) -> Network:
    net = Builder("net", 6, 8, 7)
    net.conv("stem", 6, 3, 1, 1, bias=True)
    build(net)
    return net.build()


def sequence(build: Callable[[Builder], Any]) -> Network:
    net = Builder("net", 12, 5)
    net.linear("stem", 12, bias=True)
    build(net)
    return net.build()


def attended(net: Builder) -> None:
    query = net.linear("q", 12, after="stem")
    key = net.linear("k", 4, after="stem")
    scores = net.matmul("scores", query, key, 6 * 5, 6)
    net.softmax("softmax")
    net.matmul("context", "softmax", "k", 6 * 2, 6)
    assert scores == "scores"


def joined(net: Builder) -> None:
    net.conv("side", 6, 1, after="stem")
    net.add("sum", "stem", "side")
    net.mul("gate", "sum", "side")
    net.concat("cat", "gate", "stem")
    net.other("picked", "pick", None, "cat", "side", extra=3)


NETWORKS = {
    "windows": mapped(
        lambda net: (
            net.conv("c", 9, (3, 1), (2, 1), (1, 0), groups=3),
            net.pool("max", 2, 2),
            net.pool("avg", (2, 3), 1, (1, 0), average=True),
        )
    ),
    "norms": mapped(
        lambda net: (
            net.batch_norm("n"),
            net.relu("r"),
            net.softmax("s"),
            net.layer("batch_norm", "plain", untrained=12),
        )
    ),
    "joins": mapped(joined),
    "flat": mapped(lambda net: (net.flatten("flat"), net.fc("f", 4, bias=True), net.fc("g", 2))),
    "cells": sequence(
        lambda net: (
            net.cell("lstm", "l", 6, directions=2, bias=True),
            net.cell("gru", "g", 4),
            net.layer("gru", "h", features=4),
            net.layer("gru", "again", features=4, bias=True, shared="h"),
            net.linear("f", 12),
            net.linear("tied", 12, shared="stem", after="f"),
        )
    ),
    "attention": sequence(attended),
    "experts": sequence(
        lambda net: (net.linear("e", 20, groups=4), net.linear("f", 8, groups=4, bias=True))
    ),
    "made of more": sequence(
        lambda net: (
            net.layer("fc", "lora", features=12, extra=20, bias=True),
            net.layer("fc", "turned", features=12, shared="lora"),
            net.layer("lstm", "l", features=12, extra=24),
        )
    ),
    "shared": mapped(
        lambda net: (
            net.layer("conv", "again", features=6, kernel=3, padding=1, shared="stem"),
            net.layer("conv", "c", features=6, kernel=1, groups=2),
            net.layer("conv", "d", features=6, kernel=1, groups=2, bias=True, shared="c"),
        )
    ),
    "operators": sequence(
        lambda net: (
            net.other("norm", "layer_norm", extra=24),
            net.other("part", "slice", Tensor(4, 5)),
            net.other("first", "slice", Tensor(4)),
            net.fc("head", 3),
        )
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_every_layer_comes_back_as_it_was(name: str, tmp_path: Path) -> None:
    network = NETWORKS[name]
    back = load_network(save(tmp_path, to_onnx(network), "net.onnx"))
    assert back.layers == network.layers
    assert back.notes == ()


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation", "side"),
    [(3, 2, 0, 1, 11), (3, 2, 1, 1, 10), (3, 2, 1, 2, 12), (2, 3, 0, 1, 15), (4, 1, 1, 3, 12)],
)
def test_a_transposed_convolution_reaches_its_side(
    kernel: int, stride: int, padding: int, dilation: int, side: int, tmp_path: Path
) -> None:
    """Five positions: what kernel and strides do not reach is padded on, as onnx itself agrees."""
    up = Layer(
        "up",
        "conv",
        ("input",),
        Tensor(4, 5, 5),
        Tensor(6, side, side),
        kernel,
        stride,
        padding,
        dilation=dilation,
        transposed=True,
    )
    model = to_onnx(Network("up", up.input, (up,)))
    inferred = onnx.shape_inference.infer_shapes(model).graph.output[0].type.tensor_type.shape
    assert [d.dim_value for d in inferred.dim][1:] == [6, side, side]
    assert load_network(save(tmp_path, model)).layers == (up,)


@pytest.mark.parametrize(
    ("kind", "kernel", "stride", "padding", "dilation", "side"),
    [
        ("conv", (4, 1), 1, (1, 0), 1, 12),  # "same" of an even kernel
        ("conv", 3, 1, 1, 2, 10),
        ("conv", 3, 2, 0, 1, 6),  # behind alone
        ("max_pool", 3, 2, 0, 1, 6),  # ceil_mode
        ("conv", 2, 3, 0, 1, 4),  # the last row left out, as the rule is
    ],
)
def test_a_window_reaches_its_side(
    kind: str, kernel: Any, stride: int, padding: Any, dilation: int, side: int, tmp_path: Path
) -> None:
    """Of twelve positions: what is padded behind, and not in front, follows from the output."""
    shapes = Tensor(4, 12, 12), Tensor(4, side, 12 if kernel == (4, 1) else side)
    window = Layer("w", kind, ("input",), *shapes, kernel, stride, padding, dilation=dilation)
    layers = (
        Layer("stem", "conv", ("input",), shapes[0], shapes[0]),
        replace(window, inputs=("stem",)),
    )
    network = Network("net", shapes[0], layers)
    assert load_network(save(tmp_path, to_onnx(network))).layers == network.layers


def test_a_window_that_leaves_out_the_end_cannot_be_written() -> None:
    cut = Layer("cut", "conv", ("input",), Tensor(3, 6, 36), Tensor(3, 4, 16), (3, 9))
    with pytest.raises(NetworkError, match="cut: ONNX has no window that leaves out the end"):
        to_onnx(Network("cut", cut.input, (cut,)))


@pytest.mark.parametrize("name", NETWORKS)
def test_onnx_infers_the_layers_own_shapes(name: str) -> None:
    """In one of three layouts each; the first dimension is the batch."""
    network = NETWORKS[name]
    inferred = onnx.shape_inference.infer_shapes(to_onnx(network)).graph
    shapes = {
        item.name: [d.dim_value or d.dim_param for d in item.type.tensor_type.shape.dim]
        for item in (*inferred.value_info, *inferred.output)
    }
    for layer in network.layers:
        out = layer.output
        layouts = [dims_of(out, layout) for layout in Layout]
        assert shapes[layer.name][1:] in layouts, layer
        assert out.elements == pytest.approx(_product(shapes[layer.name][1:]))


def _product(sizes: list[Any]) -> int:
    total = 1
    for size in sizes:
        total *= size
    return total


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_have_dims_and_no_data(name: str) -> None:
    network = NETWORKS[name]
    model = to_onnx(network)
    trained = [t for t in model.graph.initializer if t.data_type == onnx.TensorProto.FLOAT]
    assert all(t.data_location == onnx.TensorProto.EXTERNAL for t in trained)
    statistics = sum(2 * n.output.channels for n in network.layers if n.kind == "batch_norm")
    elements = sum(_product(list(t.dims)) for t in trained)
    assert elements == network.parameters + statistics
    assert len(model.SerializeToString()) < 20_000


def test_every_type_with_an_onnx_operator_is_written_here() -> None:
    written = {layer.kind for network in NETWORKS.values() for layer in network.layers}
    assert written | {"embedding"} == KINDS.keys()  # attention is written as its parts
    assert KINDS.keys() <= TYPES.keys()


def test_an_external_tensor_keeps_name_type_and_dims_alone() -> None:
    tensor = onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, [2, 2], [1.0, 2.0, 3.0, 4.0])
    external(tensor)
    assert (tensor.name, list(tensor.dims), len(tensor.float_data)) == ("w", [2, 2], 0)
    assert tensor.external_data[0].value == "weights-not-there.bin"


def test_a_second_operand_that_is_no_matrices_cannot_be_written() -> None:
    left = Tensor(4, 3)
    layers = (
        Layer("a", "fc", ("input",), left, left),
        Layer("b", "other", ("a",), left, Tensor(1, 2, 6), operator="odd"),
        Layer("m", "matmul", ("a", "b"), left, Tensor(6, 3), groups=2, others=(Tensor(1, 2, 6),)),
    )
    with pytest.raises(NetworkError, match="'m': 1x2x6 holds no matrices of 2x3 as ONNX could"):
        to_onnx(Network("odd", left, layers))


def test_experts_come_back_with_their_own_matrices(tmp_path: Path) -> None:
    """Not with one matrix from all features of all experts to all."""
    network = load_network("mixtral-8x7b:layers=1:seq=64:attention=unfused")
    back = load_network(save(tmp_path, to_onnx(network), "net.onnx"))
    assert (back.weights, back.macs) == (network.weights, network.macs)


def test_an_operator_on_repeated_rows_cannot_be_said_in_onnx() -> None:
    row = Tensor(4, 3)
    layers = (
        Layer("f", "fc", ("input",), row, row),
        Layer("r", "relu", ("f",), row, Tensor(4, 5, 3)),
    )
    with pytest.raises(NetworkError, match="r: ONNX has no Relu that writes more than it reads"):
        to_onnx(Network("repeated", row, layers))


def test_a_bag_of_rows_cannot_be_said_in_onnx() -> None:
    bag = Layer("bag", "embedding", ("input",), Tensor(1, 5), Tensor(8), vocabulary=100)
    with pytest.raises(NetworkError, match="bag: ONNX has no operator for a bag"):
        to_onnx(Network("bags", Tensor(1, 5), (bag,)))


def test_products_that_onnx_has_no_operator_for_are_refused() -> None:
    circulant = Layer("f", "fc", ("input",), Tensor(8), Tensor(8), block=4)
    with pytest.raises(NetworkError, match=r"'f': ONNX has no .* block-circulant weights \(4\)"):
        to_onnx(Network("net", Tensor(8), (circulant,)))
    with pytest.raises(NetworkError, match="'scan': ONNX has no operator for state_space"):
        to_onnx(mixer())
