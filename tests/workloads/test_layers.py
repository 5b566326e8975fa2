from typing import Any

import pytest

from workloads import Layer, Network, NetworkError, Tensor, partition_graph

T = Tensor(2, 4, 4)


def layer(name: str, *inputs: str, kind: str = "conv", kernel: int = 1) -> Layer:
    return Layer(name, kind, inputs, T, T, kernel)


def product(name: str, second: Tensor) -> Layer:
    return Layer(name, "matmul", ("a", "a"), T, T, groups=2, others=(second,))


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([layer("a", "input"), layer("a", "input")], "used twice"),
        ([layer("input", "input")], "used twice"),
        ([layer("a", "b"), layer("b", "input")], "'b' is not an earlier layer"),
        ([layer("a", "a")], "not an earlier layer"),
        ([layer("a", "input", kind="gemm")], "unknown kind 'gemm'"),
        ([layer("a")], "takes one input, got 0"),
        ([layer("a", "input", "input")], "takes one input, got 2"),
        ([layer("a", "input", kernel=0)], "must be positive"),
        ([Layer("a", "fc", ("input",), Tensor(1 << 40), Tensor(1 << 40))], "absurdly large"),
        ([layer("a", "input", kind="relu")], "no weighted layer"),
        ([layer("a", "input"), layer("b", "a", kind="matmul")], "a matmul takes two inputs, got 1"),
        ([Layer("a", "add", ("input", "input"), T, T, others=(T, Tensor(1)))], "2 inputs, but"),
        ([Layer("a", "embedding", ("input",), T, T)], "vocabulary of at least one row"),
        ([Layer("a", "conv", ("input",), T, T, groups=3)], "3 groups do not divide"),
        ([Layer("a", "conv", ("input",), T, T, (1, 0))], "must be positive"),
        ([Layer("a", "conv", ("input",), T, T, padding=(0, -1))], "must be positive"),
        ([Layer("a", "conv", ("input",), T, T, extra=-1)], "must be positive"),
        ([Layer("a", "conv", ("input",), Tensor(2, 0, 4), T)], "must be positive"),
        ([Layer("a", "lstm", ("input",), T, Tensor(3, 4), directions=2)], "two that halve"),
        ([Layer("a", "lstm", ("input",), T, T, directions=3)], "one direction, or two"),
        ([layer("a", "input"), product("b", Tensor(3, 4))], "2x4x4 times 3x4x1 in 2 groups"),
        ([layer("a", "input"), product("b", Tensor(6, 4))], "2x4x4 times 6x4x1 in 2 groups"),
        ([Layer("a", "fc", ("input",), T, T, shared="b")], "cannot share the weights of 'b'"),
        ([Layer("a", "conv", ("input",), T, T, extra=1 << 63)], "absurdly large"),
        (
            [layer("a", "input"), Layer("b", "fc", ("a",), T, Tensor(3), shared="a")],
            "cannot share the weights of 'a'",
        ),
    ],
)
def test_malformed_networks(layers: list[Layer], words: str) -> None:
    with pytest.raises(NetworkError) as caught:
        Network("net", T, tuple(layers))
    assert words in str(caught.value)


def one(kind: str, into: Tensor, out: Tensor, **fields: Any) -> Layer:
    return Layer("layer", kind, ("input",), into, out, **fields)


@pytest.mark.parametrize(
    ("layer", "weights", "parameters", "macs"),
    [
        (one("conv", T, Tensor(6, 2, 2), kernel=(1, 3), bias=True), 36, 42, 144),
        (one("conv", T, Tensor(6, 2, 2), kernel=3, groups=2), 54, 54, 216),
        (one("conv", T, T, kernel=3, groups=2), 18, 18, 288),
        (one("conv", Tensor(2, 2, 2), Tensor(3, 4, 4), kernel=2, transposed=True), 24, 24, 96),
        (one("fc", Tensor(5, 7), Tensor(3, 7), bias=True), 15, 18, 105),
        (one("embedding", Tensor(1, 7), Tensor(3, 7), vocabulary=11), 33, 33, 0),
        (one("lstm", Tensor(5, 7), Tensor(3, 7), bias=True), 96, 96 + 24, 672),
        (one("lstm", Tensor(5, 7), Tensor(6, 7), bias=True, directions=2), 192, 240, 1344),
        (one("gru", Tensor(5, 7), Tensor(3, 7)), 72, 72, 504),
        (one("batch_norm", T, T), 0, 4, 0),
        (one("other", T, T, operator="layer_norm", extra=4), 0, 4, 0),
    ],
)
def test_what_a_layer_counts(layer: Layer, weights: int, parameters: int, macs: int) -> None:
    assert (layer.weights, layer.parameters, layer.macs) == (weights, parameters, macs)


def test_square_windows_and_alike_inputs_have_one_spelling() -> None:
    layer = Layer("a", "add", ("x", "y"), T, T, (3, 3), (2, 1), others=(T,))
    assert layer == Layer("a", "add", ("x", "y"), T, T, 3, (2, 1))
    assert layer.operands == (T, T)
    assert (layer.kernel_area, layer.kernel) == (9, 3)


def test_heads_that_share_keys_are_positions_of_one_group() -> None:
    left, keys, scores = Tensor(12, 5), Tensor(4, 7), Tensor(6 * 7, 5)
    network = Network(
        "net",
        left,
        (
            Layer("q", "fc", ("input",), left, left),
            Layer("k", "fc", ("input",), left, keys),
            Layer("qk", "matmul", ("q", "k"), left, scores, groups=6, others=(keys,)),
        ),
    )
    node = partition_graph(network)[2]
    assert (node.groups, node.in_channels, node.out_channels) == (2, 4, 14)
    assert (node.in_area, node.out_area, node.operand) == (15, 15, 28)
    assert node.reads == (left, keys)
