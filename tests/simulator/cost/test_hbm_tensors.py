"""Which tensors exist in HBM, who reads them, and whose gradients are written, by hand."""

import pytest

from simulator.cost.hbm_tensors import gradient, tensors
from workloads import Builder, Layer, Network, Tensor, owners, partition_graph


def layer(kind: str, operator: str = "", out: int = 4, extra: int = 0) -> Layer:
    return Layer("x", kind, ("input",), Tensor(4), Tensor(out), operator=operator, extra=extra)


@pytest.mark.parametrize(
    ("one", "riding", "bending"),
    [
        (layer("batch_norm"), True, True),
        (layer("relu"), True, True),
        (layer("flatten"), True, False),
        (layer("max_pool"), False, None),
        (layer("softmax"), False, None),
        (layer("other", "gelu"), True, True),
        (layer("other", "gelu", out=2), False, None),  # not element by element
        (layer("other", "transpose"), True, False),
        (layer("other", "slice", out=2), True, False),  # a part of what is there
        (layer("other", "view", out=8), False, None),  # more than what is there
        (layer("other", "dropout"), True, False),
        (layer("other", "mul"), True, False),
        (layer("other", "mul", extra=4), True, True),  # by values that are trained
        (layer("other", "layer_norm"), False, None),
        (layer("other", "never heard of"), False, None),
    ],
)
def test_what_rides_and_what_backward_needs_values_for(
    one: Layer, riding: bool, bending: bool | None
) -> None:
    """Only of what rides it is asked whether backward needs values."""
    assert one.type.in_passing(one) == riding
    assert bending is None or one.type.needs_values(one) == bending


def test_element_wise_operators_of_two_inputs_are_operators() -> None:
    both = Layer("x", "other", ("a", "b"), Tensor(4), Tensor(4), operator="gelu")
    assert not both.type.in_passing(both)


def residual() -> Network:
    """entry, then main (with norm and ReLU) and a shortcut into a sum, then a product."""
    net = Builder("residual", 4, 6, 6)
    entry = net.conv("entry", 8, 1)
    net.conv("main", 8, 1)
    norm = net.batch_norm("norm")
    net.add("sum", norm, entry)
    net.relu("relu")
    net.conv("last", 2, 1)
    return net.build()


def test_roots_riders_and_readers() -> None:
    found = tensors(residual())
    assert found.root == {
        "input": "input",
        "entry": "entry",
        "main": "main",
        "norm": "main",
        "sum": "sum",
        "relu": "sum",
        "last": "last",
    }
    assert found.fused_readers == {
        "input": (),
        "entry": (),
        "main": ("norm",),
        "sum": ("relu",),
        "last": (),
    }
    assert found.readers["input"] == (("entry", 0),)
    assert found.readers["entry"] == (("main", 0), ("sum", 1))
    assert found.readers["main"] == (("sum", 0),)  # the norm is looked through
    assert found.readers["sum"] == (("last", 0),)
    assert found.readers["last"] == ()


def test_gradients_of_a_sum_are_one_tensor_for_both_branches() -> None:
    found = tensors(residual())
    assert found.written["last"] == ("gradient of last's input",)
    assert found.gradients["sum"] == ("gradient of last's input",)
    assert found.written["sum"] == ("gradient of sum's input",) * 2
    assert found.gradients["main"] == ("gradient of sum's input",)
    assert found.gradients["entry"] == ("gradient of main's input", "gradient of sum's input")
    assert found.gradients["last"] == ("last",)  # formed in place of the output
    assert found.normed == {"sum": ("main",)}
    assert [name for name in found.layers if found.whole(name)] == [
        "main",
        "norm",
        "sum",
        "relu",
        "last",
    ]


def test_what_a_norm_alone_reads_is_left_to_the_join() -> None:
    """Where another layer reads the norm too, the join does not do its reductions."""
    net = Builder("shared norm", 4, 6, 6)
    entry = net.conv("entry", 8, 1)
    net.conv("main", 8, 1)
    norm = net.batch_norm("norm")
    net.add("sum", norm, entry)
    net.conv("other", 8, 1, after=norm)
    net.add("both", "sum", "other")
    found = tensors(net.build())
    assert found.normed == {"sum": (), "both": ()}


def test_a_join_passes_on_what_it_need_not_touch() -> None:
    net = Builder("pass", 4, 6, 6)
    one, two = net.conv("one", 8, 1), net.conv("two", 8, 1, after="input")
    net.add("sum", one, two)
    net.conv("last", 2, 1)
    found = tensors(net.build())
    assert found.passes("sum")
    assert found.written["sum"] == ("gradient of last's input",) * 2
    assert found.gradients["one"] == found.gradients["two"] == ("gradient of last's input",)
    masked = tensors(residual())
    assert not masked.passes("sum")  # a ReLU masks it, and it reduces for the norm


def test_a_product_passes_nothing_on() -> None:
    net = Builder("gate", 4, 6, 6)
    one, two = net.conv("one", 8, 1), net.conv("two", 8, 1, after="input")
    net.mul("gate", one, two)
    net.conv("last", 2, 1)
    found = tensors(net.build())
    assert not found.passes("gate")
    assert found.written["gate"] == ("gradient of gate's input 1", "gradient of gate's input 2")


def test_only_what_is_behind_parameters_needs_a_gradient() -> None:
    net = Builder("late", 3, 8, 8)
    net.pool("pool", 2, 2)
    net.conv("conv", 4, 1)
    net.pool("after", 2, 2)
    found = tensors(net.build())
    assert found.trained == {"conv", "after"}


def test_shared_weights_are_trained_where_they_are_used() -> None:
    net = Builder("tied", 8, 1)
    net.linear("one", 8)
    net.linear("two", 8, shared="one", after="input")
    found = tensors(net.build())
    assert found.trained == {"one", "two"}


def test_ids_have_no_gradient() -> None:
    net = Builder("words", 1, 5)
    net.embedding("table", 100, 8)
    net.linear("head", 2)
    found = tensors(net.build())
    assert found.gradients["table"] == ("gradient of head's input",)
    assert found.readers["input"] == (("table", 0),)


def test_shapes_of_gradients_are_those_of_what_was_read() -> None:
    """A slice is read as a part: its gradient has the part's shape, and is not the whole."""
    net = Builder("slices", 4, 5)
    fused = net.linear("fused", 6)
    left = net.other("left", "slice", Tensor(4, 5), fused)
    net.linear("one", 3, after=left)
    found = tensors(net.build())
    assert found.root["left"] == "fused"
    assert found.shapes["gradient of one's input"] == Tensor(4, 5)
    assert found.shapes["fused"] == Tensor(6, 5)
    assert not found.whole("fused")
    assert found.whole("one")


@pytest.mark.parametrize(
    ("kind", "inputs", "place", "name"),
    [
        ("conv", 1, 0, "gradient of x's input"),
        ("add", 2, 1, "gradient of x's input"),
        ("concat", 2, 1, "gradient of x's input 2"),
        ("matmul", 2, 0, "gradient of x's input 1"),
    ],
)
def test_names_of_gradients(kind: str, inputs: int, place: int, name: str) -> None:
    reader = Layer("x", kind, ("a", "b")[:inputs], Tensor(4), Tensor(4))
    assert gradient(reader, place) == name


def test_operators_belong_to_the_node_they_stand_behind() -> None:
    network = residual()
    graph = partition_graph(network)
    places = {node.name: i for i, node in enumerate(graph)}
    found = owners(network, graph)
    assert found["norm"] == (places["main"], False)
    assert found["relu"] == (places["sum"], False)
    assert found["last"] == (places["last"], False)
    assert found["input"] == (0, True)


def test_operators_on_the_input_lie_in_front_of_the_first_node() -> None:
    net = Builder("early", 3, 8, 8)
    net.batch_norm("norm")
    net.pool("pool", 2, 2)
    net.conv("conv", 4, 1)
    network = net.build()
    found = owners(network, partition_graph(network))
    assert found["norm"] == found["pool"] == (0, True)
    assert found["conv"] == (0, False)
