"""Each kind of layer, every operator, counted by hand: whose numbers it moves, and how many.

(activations, weights, weights' gradients, updated parameters), all in numbers:
what a format makes of them is ``test_formats``'s. ROWS samples everywhere.
"""

from dataclasses import replace

import pytest

from simulator.cost.number_bytes import NumberBytes
from simulator.cost.roofline import traffic
from simulator.cost.training_operators import operators
from tests.simulator.shapes import PLAIN, unsplit
from workloads import Builder, Layer, Network, Tensor

ROWS = 3
KINDS = ("activation", "weight", "gradient", "update")
NONE = NumberBytes(0, 0, 0, 0, 0)
Numbers = dict[str, tuple[float, float, float, float]]


def numbers(network: Network) -> Numbers:
    """What each operator moves of each kind: its bytes where only that kind has any."""
    ops = operators(network)
    cores = [replace(PLAIN, bytes=NONE._replace(**{kind: 1})) for kind in KINDS]
    found: Numbers = {}
    for op in ops.schedule():
        shard = unsplit(ops.graph[op.node], ROWS)
        a, w, g, u = (round(traffic(op, shard, core), 6) for core in cores)
        found[op.name] = a, w, g, u
    return found


def test_a_convolution_behind_another() -> None:
    """8 x 8 maps: 3 to 4 channels, stride 2 to 6 channels of 4 x 4; bias is updated, not read."""
    net = Builder("conv", 3, 8, 8)
    net.conv("one", 4, 3, padding=1)
    net.conv("two", 6, 3, 2, 1, bias=True)
    into, middle, out = ROWS * 3 * 64, ROWS * 4 * 64, ROWS * 6 * 16
    one, two = 9 * 3 * 4, 9 * 4 * 6
    assert numbers(net.build()) == {
        "one forward": (into + middle, one, 0, 0),
        "two forward": (middle + out, two, 0, 0),
        "two backward": (out + middle, two, 0, 0),
        "two gradient": (middle + out, 0, two, 0),
        "one gradient": (into + middle, 0, one, 0),  # nobody needs the errors of the input
        "one update": (0, 0, 0, one),
        "two update": (0, 0, 0, two + 6),
    }


def test_grouped_depthwise_and_rectangular_windows() -> None:
    """Four groups of 2 to 4 channels; 16 groups of one; a 1 x 3 window."""
    net = Builder("grouped", 8, 6, 6)
    net.conv("groups", 16, 3, padding=1, groups=4)
    net.conv("depth", 16, 5, padding=2, groups=16)
    net.conv("flat", 2, (1, 3), padding=(0, 1))
    found = numbers(net.build())
    small, large, last = ROWS * 8 * 36, ROWS * 16 * 36, ROWS * 2 * 36
    assert found["groups forward"] == (small + large, 4 * (2 * 4 * 9), 0, 0)
    assert found["groups gradient"] == (small + large, 0, 4 * (2 * 4 * 9), 0)
    assert found["depth forward"] == (2 * large, 16 * 25, 0, 0)
    assert found["depth backward"] == (2 * large, 16 * 25, 0, 0)
    assert found["flat gradient"] == (large + last, 0, 16 * 2 * 3, 0)
    assert found["flat update"] == (0, 0, 0, 96)


def test_a_transposed_convolution() -> None:
    """4 x 4 to 8 x 8: each weight is read once whichever way round it runs."""
    up = Layer("up", "conv", ("one",), Tensor(4, 4, 4), Tensor(2, 8, 8), 2, 2, transposed=True)
    one = Layer("one", "conv", ("input",), Tensor(3, 4, 4), Tensor(4, 4, 4))
    found = numbers(Network("up", Tensor(3, 4, 4), (one, up)))
    small, large = ROWS * 4 * 16, ROWS * 2 * 64
    assert found["up forward"] == (small + large, 4 * 2 * 4, 0, 0)
    assert found["up backward"] == (large + small, 4 * 2 * 4, 0, 0)
    assert found["up gradient"] == (small + large, 0, 4 * 2 * 4, 0)


def test_fully_connected_layers_and_a_softmax() -> None:
    """The last layer's gradient stands in place of its output: a softmax there reads its input."""
    net = Builder("fc", 7, 1)
    net.fc("one", 5)
    net.relu("relu")
    net.fc("two", 4, bias=True)
    net.softmax("softmax")
    a, b, c = ROWS * 7, ROWS * 5, ROWS * 4
    assert numbers(net.build()) == {
        "one forward": (a + b, 35, 0, 0),
        "two forward": (b + c, 20, 0, 0),
        "softmax forward": (c + c, 0, 0, 0),
        "softmax backward": (c + c + c, 0, 0, 0),
        "two backward": (c + b, 20, 0, 0),
        "two gradient": (b + c, 0, 20, 0),
        "one gradient": (a + b + b, 0, 35, 0),  # its own output again, for the ReLU's mask
        "one update": (0, 0, 0, 35),
        "two update": (0, 0, 0, 24),
    }


def test_a_linear_layer_has_its_weights_once_for_all_positions() -> None:
    net = Builder("sequence", 4, 10)
    net.linear("one", 6, bias=True)
    net.linear("two", 3)
    found = numbers(net.build())
    assert found["one forward"] == (ROWS * 10 * (4 + 6), 24, 0, 0)
    assert found["two backward"] == (ROWS * 10 * (3 + 6), 18, 0, 0)
    assert found["two gradient"] == (ROWS * 10 * (6 + 3), 0, 18, 0)
    assert found["one update"] == (0, 0, 0, 30)


def test_batch_norms_and_pools() -> None:
    """conv, norm, ReLU, pool, fc: the norm rides forward, and is undone backward."""
    net = Builder("norm", 2, 8, 8)
    net.conv("conv", 4, 1)
    net.batch_norm("norm")
    net.relu("relu")
    net.pool("pool", 2, 2)
    net.flatten("flatten")
    net.fc("fc", 3)
    x, y, z, out = ROWS * 2 * 64, ROWS * 4 * 64, ROWS * 4 * 16, ROWS * 3
    assert numbers(net.build()) == {
        "conv forward": (x + y, 8, 0, 0),
        "norm statistics": (y, 0, 0, 0),
        "pool forward": (y + z, 0, 0, 0),
        "fc forward": (z + out, 192, 0, 0),
        "fc backward": (out + z, 192, 0, 0),
        "fc gradient": (z + out, 0, 192, 0),
        "pool backward": (z + y + y, 0, 0, 0),
        "norm reductions": (y + y, 0, 0, 0),
        "conv gradient": (x + y + y, 0, 8, 0),
        "conv update": (0, 0, 0, 8 + 2 * 4),  # scale and shift of the norm behind it
        "fc update": (0, 0, 0, 192),
    }


def test_an_embedding_gathers_weights_and_scatters_gradients() -> None:
    """Ids move as maps; 5 rows of 8 are gathered of a table of 100, and later touched."""
    net = Builder("words", 1, 5)
    net.embedding("table", 100, 8)
    net.linear("head", 2)
    found = numbers(net.build())
    ids, rows = ROWS * 5, ROWS * 5 * 8
    assert found["table forward"] == (ids + rows, rows, 0, 0)
    assert found["table gradient"] == (ids + rows, 0, 800 + 2 * rows, 0)
    assert found["table update"] == (0, 0, 0, 800)
    assert found["head backward"] == (ROWS * 5 * 2 + rows, 16, 0, 0)


def test_a_bag_gathers_more_rows_than_it_writes() -> None:
    """Of 5 ids, 5 rows of 8 are gathered and later touched; one row is written and comes back."""
    bag = Layer("bag", "embedding", ("input",), Tensor(1, 5), Tensor(8), vocabulary=100)
    head = Layer("head", "fc", ("bag",), Tensor(8), Tensor(2))
    found = numbers(Network("bags", Tensor(1, 5), (bag, head)))
    ids, rows, row = ROWS * 5, ROWS * 5 * 8, ROWS * 8
    assert found["bag forward"] == (ids + row, rows, 0, 0)
    assert found["bag gradient"] == (ids + row, 0, 800 + 2 * rows, 0)


def test_tied_uses_add_to_one_gradient() -> None:
    """The head runs backward first and writes it; a product adds, an embedding touches rows."""
    net = Builder("tied", 1, 5)
    net.embedding("table", 100, 8)
    net.linear("middle", 8)
    net.linear("again", 8, shared="middle")
    net.linear("head", 100, shared="table")
    found = numbers(net.build())
    rows = ROWS * 5 * 8
    assert found["head gradient"][2] == 800
    assert found["table gradient"][2] == 2 * rows
    assert found["again gradient"][2] == 64
    assert found["middle gradient"][2] == 2 * 64
    assert [name for name in found if name.endswith("update")] == ["table update", "middle update"]
    assert found["again forward"][1] == found["middle forward"][1] == 64


@pytest.mark.parametrize(("kind", "gates"), [("lstm", 4), ("gru", 3)])
def test_a_cell_reads_its_states_weights_at_every_step(kind: str, gates: int) -> None:
    """Four steps of 6 inputs and 5 units: the input's weights once, the state's four times."""
    net = Builder("cells", 6, 4)
    net.linear("before", 6)
    net.cell(kind, "cell", 5, bias=True)
    found = numbers(net.build())
    into, out = ROWS * 4 * 6, ROWS * 4 * 5
    inputs, state = gates * 5 * 6, gates * 5 * 5
    read = inputs + 4 * state
    assert found["cell forward"] == (into + out + (gates + 1) * out, read, 0, 0)
    assert found["cell backward"] == (out + (gates + 1) * out + gates * out + into, read, 0, 0)
    assert found["cell gradient"] == (into + out + gates * out, 0, inputs + state, 0)
    biases = 2 * gates * 5
    assert found["cell update"] == (0, 0, 0, inputs + state + biases)


def test_products_of_two_maps_have_no_weights() -> None:
    """Two heads of 3: 5 queries by 5 keys, then by values, all parts of one tensor."""
    net = Builder("attention", 4, 5)
    fused = net.linear("fused", 18)
    query, key, value = (net.other(x, "slice", Tensor(6, 5), fused) for x in "qkv")
    net.matmul("scores", query, key, 10, groups=2)
    net.matmul("context", "scores", value, 6, groups=2)
    found = numbers(net.build())
    part, scores = ROWS * 30, ROWS * 50
    assert found["scores forward"] == (part + part + scores, 0, 0, 0)
    assert found["context forward"] == (scores + part + part, 0, 0, 0)
    assert found["context backward"] == (part + part + scores, 0, 0, 0)
    assert found["context gradient"] == (part + scores + part, 0, 0, 0)
    assert found["scores backward"] == found["scores gradient"] == (scores + 2 * part, 0, 0, 0)
    assert found["fused gradient sum"] == (3 * part + 3 * part, 0, 0, 0)
    assert all(g == u == 0 for name, (_, _, g, u) in found.items() if "fused" not in name)


@pytest.mark.parametrize(
    ("join", "backward"),
    [
        ("add", 0),  # one gradient comes in and nothing is masked: it is handed on
        ("mul", 5),  # incoming gradient, both operands, a gradient for each
    ],
)
def test_joins_of_alike_operands(join: str, backward: int) -> None:
    net = Builder("join", 4, 6, 6)
    one = net.conv("one", 8, 1)
    two = net.conv("two", 8, 1, after="input")
    getattr(net, join)("join", one, two)
    net.conv("after", 2, 1)
    found, each = numbers(net.build()), ROWS * 8 * 36
    assert found["join forward"] == (3 * each, 0, 0, 0)
    assert found.get("join backward", (0, 0, 0, 0)) == (backward * each, 0, 0, 0)
    assert "join update" not in found


def test_a_concat_hands_each_branch_its_slice() -> None:
    net = Builder("concat", 4, 6, 6)
    one, two = net.conv("one", 3, 1), net.conv("two", 5, 1, after="input")
    net.concat("both", one, two)
    net.conv("after", 2, 1)
    found, area = numbers(net.build()), ROWS * 36
    assert found["both forward"] == (area * (3 + 5 + 8), 0, 0, 0)
    assert found["both backward"] == (area * (8 + 3 + 5), 0, 0, 0)
    assert found["one gradient"] == (area * (4 + 3), 0, 12, 0)
    assert found["two gradient"] == (area * (4 + 5), 0, 20, 0)


def test_an_add_that_masks_and_sums_two_readers() -> None:
    """Both readers' gradients come in; a ReLU behind the sum needs the sum itself."""
    net = Builder("residual", 4, 6, 6)
    one, two = net.conv("one", 8, 1), net.conv("two", 8, 1, after="input")
    net.add("sum", one, two)
    net.relu("relu")
    net.conv("left", 2, 1)
    net.conv("right", 3, 1, after="relu")
    found, each = numbers(net.build()), ROWS * 8 * 36
    assert found["sum backward"] == (2 * each + each + each, 0, 0, 0)
    assert found["one gradient"] == (ROWS * 4 * 36 + each, 0, 32, 0)


def test_norms_over_channels_are_operators_of_their_own() -> None:
    net = Builder("layer norm", 6, 5)
    net.linear("one", 8)
    net.other("norm", "layer_norm", extra=16)
    net.linear("two", 3)
    found, each = numbers(net.build()), ROWS * 5 * 8
    assert found["norm forward"] == (2 * each, 0, 0, 0)
    assert found["norm backward"] == (3 * each, 0, 0, 0)
    assert found["one update"] == (0, 0, 0, 48 + 16)  # its parameters are the node's in front


def test_operators_on_the_networks_input_belong_to_the_first_node() -> None:
    net = Builder("early", 3, 8, 8)
    net.pool("pool", 2, 2)
    net.conv("conv", 4, 1)
    found = numbers(net.build())
    assert found["pool forward"] == (ROWS * 3 * (64 + 16), 0, 0, 0)
    assert "pool backward" not in found
    assert found["conv forward"] == (ROWS * 16 * (3 + 4), 12, 0, 0)
