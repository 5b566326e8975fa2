"""Networks written layer by layer: every method's shapes, and what it refuses."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workloads import Builder, NetworkError, Tensor
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


@pytest.mark.parametrize(("average", "kind"), [(False, "max_pool"), (True, "avg_pool")])
def test_pools_keep_channels(average: bool, kind: str) -> None:
    net = Builder("net", 4, 7, 7)
    net.conv("conv", 5, 1)
    net.pool("pool", 3, 2, 1, average=average)
    pool = net.build().layers[-1]
    assert (pool.kind, pool.output, pool.inputs) == (kind, Tensor(5, 4, 4), ("conv",))


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


def test_layers_of_vectors_and_of_sequences() -> None:
    net = Builder("net", 1, 7)
    net.embedding("words", 50, 8)
    net.cell("lstm", "forward", 6, bias=True)
    net.cell("gru", "both", 5, directions=2)
    net.linear("each", 3, bias=True)
    net.linear("again", 8, after="words")
    net.linear("head", 50, shared="words", after="again")
    words, forward, both, each, _, head = net.build().layers
    assert (words.vocabulary, words.output) == (50, Tensor(8, 7))
    assert (forward.kind, forward.output, forward.bias) == ("lstm", Tensor(6, 7), True)
    assert (both.kind, both.output, both.directions) == ("gru", Tensor(10, 7), 2)
    assert (each.kind, each.input, each.output) == ("fc", Tensor(10, 7), Tensor(3, 7))
    assert (head.shared, head.output) == ("words", Tensor(50, 7))


def test_joins_and_operators_of_several() -> None:
    net = Builder("net", 4, 5, 5)
    net.conv("a", 4, 1)
    net.conv("b", 4, 1, after="input")
    net.conv("c", 6, 1, after="input")
    net.add("sum", "a", "b")
    net.mul("gate", "sum", "a")
    net.concat("cat", "gate", "c", "b")
    net.other("shift", "roll", None, "cat", extra=9)
    net.other("gather", "pick", Tensor(3), "shift", "c")
    layers = {layer.name: layer for layer in net.build().layers}
    assert (layers["sum"].kind, layers["sum"].output) == ("add", Tensor(4, 5, 5))
    assert layers["gate"].kind == "mul"
    assert layers["cat"].output == Tensor(14, 5, 5)
    assert layers["cat"].operands == (Tensor(4, 5, 5), Tensor(6, 5, 5), Tensor(4, 5, 5))
    assert (layers["shift"].operator, layers["shift"].extra) == ("roll", 9)
    assert layers["shift"].output == Tensor(14, 5, 5)
    assert layers["gather"].operands == (Tensor(14, 5, 5), Tensor(6, 5, 5))
    assert layers["gather"].output == Tensor(3)


def test_a_product_of_two_sequences() -> None:
    net = Builder("net", 12, 5)
    query, key = net.linear("q", 12), net.linear("k", 4, after="input")
    net.matmul("scores", query, key, 6 * 5, 6)
    scores = net.build().layers[-1]
    assert (scores.kind, scores.groups, scores.output) == ("matmul", 6, Tensor(30, 5))
    assert scores.operands == (Tensor(12, 5), Tensor(4, 5))


@pytest.mark.parametrize(
    ("what", "words"),
    [
        (lambda net: net.fc("f", 3), "net, f: fc reads a vector, got 4x5x5"),
        (lambda net: net.linear("l", 3), "net, l: linear reads a sequence, got 4x5x5"),
        (lambda net: net.add("s", "a", "small"), "net, s: cannot add shapes"),
        (lambda net: net.mul("s", "a", "small"), "net, s: cannot mul shapes"),
        (lambda net: net.concat("c", "a", "small"), "net, c: cannot concatenate shapes"),
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
