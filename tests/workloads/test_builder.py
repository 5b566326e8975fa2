"""Networks written layer by layer: every method's shapes, and what it refuses."""

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads import Builder, Layer, Network, NetworkError, Tensor
from workloads.layer_types.linear import window


def places(side: int, kernel: int, stride: int, padding: int) -> int:
    """Windows that lie within the padded side, slid one by one."""
    starts = itertools.count(-padding, stride)
    return sum(1 for _ in itertools.takewhile(lambda at: at + kernel <= side + padding, starts))


@given(st.integers(1, 30), st.integers(1, 7), st.integers(1, 4), st.integers(0, 3))
def test_a_window_has_as_many_places_as_it_can_be_slid_to(
    side: int, kernel: int, stride: int, padding: int
) -> None:
    if side + 2 * padding >= kernel:
        assert window(side, kernel, stride, padding) == places(side, kernel, stride, padding)


def test_a_convolution_keeps_what_it_was_given() -> None:
    net = Builder("net", 6, 9, 7)
    net.conv("conv", 8, (3, 5), (2, 1), (1, 2), groups=2, bias=True)
    (layer,) = net.build("words").layers
    assert (layer.kind, layer.inputs, layer.input) == ("conv", ("input",), Tensor(6, 9, 7))
    assert layer.output == Tensor(8, places(9, 3, 2, 1), places(7, 5, 1, 2))
    assert (layer.kernel, layer.stride, layer.padding) == ((3, 5), (2, 1), (1, 2))
    assert (layer.groups, layer.bias) == (2, True)
    assert net.build("words").description == "words"


def test_each_method_reads_the_last_layer_or_the_one_named() -> None:
    net = Builder("net", 4, 6, 6)
    first = net.conv("a", 4, 1)
    second = net.conv("b", 4, 1)
    assert (net.last, net.shape(first), net.shape("input")) == ("b", Tensor(4, 6, 6), net.input)
    net.relu("from_b")
    net.relu("from_a", first)
    net.batch_norm("norm", second)
    net.softmax("softmax", first)
    net.conv("from_input", 2, 1, after="input")
    net.pool("pool", 2, 2, after=first)
    net.flatten("flat", second)
    sources = {layer.name: layer.inputs for layer in net.build().layers}
    assert sources == {
        "a": ("input",),
        "b": ("a",),
        "from_b": ("b",),
        "from_a": ("a",),
        "norm": ("b",),
        "softmax": ("a",),
        "from_input": ("input",),
        "pool": ("a",),
        "flat": ("b",),
    }
    assert net.shape("flat") == Tensor(144)


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (lambda net: net.fc("f", 3), "net, f: fc reads a vector, got 4x5x5"),
        (lambda net: net.linear("l", 3), "net, l: linear reads a sequence, got 4x5x5"),
        (lambda net: net.add("s", "a", "small"), "net, s: cannot add shapes"),
        (lambda net: net.mul("s", "a", "small"), "net, s: cannot mul shapes"),
        (lambda net: net.concat("c", "a", "small"), "net, c: cannot concatenate shapes"),
        (lambda net: net.conv("c", 4, 1, stride=0), "net, c: stride 0: at least 1"),
        (lambda net: net.add("s", "a", "nope"), "net, s: no layer 'nope' so far; the last one is"),
        (lambda net: net.fc("f", 3, after="nope"), "net, f: no layer 'nope' so far"),
        (lambda net: net.shape("nope"), "no layer 'nope' so far"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(what: object, words: str) -> None:
    net = Builder("net", 4, 5, 5)
    net.pool("small", 5, 5)
    net.conv("a", 4, 1, after="input")
    with pytest.raises(NetworkError, match=words):
        what(net)  # type: ignore[operator]


def test_what_the_finished_network_refuses() -> None:
    net = Builder("net", 4, 5, 5)
    net.conv("a", 4, 9)
    with pytest.raises(NetworkError, match="network 'net', layer 'a': shapes, kernel and stride"):
        net.build()
    net = Builder("net", 4, 5, 5)
    net.relu("r")
    with pytest.raises(NetworkError, match="no weighted layer"):
        net.build()


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("c", {"channels": float("nan"), "kernel": 3}),
        ("c", {"channels": 3.5, "kernel": 3}),
        ("c", {"channels": 4, "kernel": 3, "padding": 0.5}),
        ("c", {"channels": "4", "kernel": 3}),
        (7, {"channels": 4, "kernel": 3}),
    ],
)
def test_sizes_are_whole_numbers_and_names_text(name: Any, sizes: dict[str, Any]) -> None:
    def made() -> None:
        net = Builder("b", 3, 8, 8)
        net.conv(name, **sizes)
        net.build()

    with pytest.raises(NetworkError, match=r"and a whole number|must be text"):
        made()


@pytest.mark.parametrize(
    ("kind", "sizes", "words"),
    [
        ("fc", {"features": 4, "kernel": 7}, "fc has no kernel; it has features, groups, output"),
        ("fc", {"features": 4, "stride": 2}, "fc has no stride"),
        ("conv", {"features": 4, "vocabulary": 9}, "conv has no vocabulary"),
        ("conv", {"features": 4, "kernel": 1, "transposed": True}, "conv has no transposed"),
        ("relu", {"features": 999}, "relu has no features; it has output"),
        ("relu", {"bias": True}, "relu has no bias"),
        ("softmax", {"others": ()}, "softmax has no others"),
        ("max_pool", {"kernel": "3"}, "kernel '3': at least 1, and a whole number"),
        ("max_pool", {"kernel": (3, 3, 3)}, r"kernel \(3, 3, 3\): at least 1"),
        ("max_pool", {"kernel": 3, "padding": -1}, "padding -1: at least 0, and a whole number"),
        ("max_pool", {"kernel": (3,)}, r"kernel \(3,\): at least 1"),
        ("fc", {"features": (4, 4)}, r"features \(4, 4\): at least 1"),
    ],
)
def test_a_layer_has_the_keys_of_its_type(kind: str, sizes: dict[str, Any], words: str) -> None:
    net = Builder("net", 64, 8, 1)
    with pytest.raises(NetworkError, match=f"net, x: {words}"):
        net.layer(kind, "x", "input", **sizes)
    assert net.last == "input"


@pytest.mark.parametrize("sizes", [{"groups": 2.0}, {"block": "4"}, {"sizes": (("rank", 2.5),)}])
def test_a_layer_made_by_itself_has_whole_numbers(sizes: dict[str, Any]) -> None:
    layer = Layer("x", "fc", ("input",), Tensor(8), Tensor(8), **sizes)
    with pytest.raises(NetworkError, match=r"'x': .* all other sizes must be whole numbers"):
        Network("net", Tensor(8), (layer,))


def test_true_is_no_size() -> None:
    net = Builder("net", 8, 4, 4)
    with pytest.raises(NetworkError, match="features True: a whole number"):
        net.layer("conv", "one", features=True, kernel=3)
