"""HBM traffic of every further kind of layer, by hand."""

import pytest

from simulator.cost.roofline import flops, traffic
from simulator.cost.training_operators import operators
from tests.simulator.shapes import PLAIN, unsplit
from workloads import Builder, Network, Tensor, load_network

ROWS = 3


def moved(network: Network) -> dict[str, float]:
    """Bytes of every operator, for ROWS rows of everything, without tiles."""
    ops = operators(network)
    return {op.name: traffic(op, unsplit(ops.graph[op.node], ROWS), PLAIN) for op in ops.schedule()}


def maps(*elements: int) -> int:
    """Bytes of maps of so many elements a row."""
    return ROWS * 2 * sum(elements)


def reads(network: Network, name: str) -> list[str]:
    (op,) = (op for op in operators(network).schedule() if op.name == name)
    return [tensor.tensor for tensor in op.reads]


def test_attention() -> None:
    """Five positions, two heads of k = 3; queries, keys and values are parts of one tensor."""
    net = Builder("attention", 4, 5)
    fused = net.linear("fused", 18)
    part = Tensor(6, 5)
    query, key, value = (net.other(x, "slice", part, fused) for x in "qkv")
    net.matmul("scores", query, key, 2 * 5, groups=2)
    net.softmax("softmax")
    net.matmul("context", "softmax", value, 6, groups=2)
    net.linear("out", 4)
    network = net.build()
    bytes_, scores = moved(network), 2 * 5 * 5
    assert bytes_["scores forward"] == maps(30, 30, scores)
    assert bytes_["softmax forward"] == maps(scores, scores)
    assert bytes_["context forward"] == maps(scores, 30, 30)
    assert bytes_["context backward"] == maps(30, 30, scores)  # error of the probabilities
    assert bytes_["context gradient"] == maps(30, scores, 30)  # of the values
    assert bytes_["softmax backward"] == maps(3 * scores)
    assert reads(network, "softmax backward")[1] == "softmax"  # the scores are not kept
    assert bytes_["scores backward"] == bytes_["scores gradient"] == maps(scores, 30, 30)
    assert bytes_["fused gradient sum"] == maps(30, 30, 30, 90)
    assert bytes_["fused gradient"] == maps(20, 90) + 4 * 72
    assert not {"q", "k", "v"} & {name.split()[0] for name in bytes_}  # parts are views


def test_shared_keys_are_read_once() -> None:
    """Four heads of queries, two of keys: as many products, half the second operand."""
    net = Builder("grouped", 8, 5)
    query = net.linear("query", 12)
    key = net.linear("key", 6, after="input")
    net.matmul("scores", query, key, 4 * 5, groups=4)
    network = net.build()
    assert moved(network)["scores forward"] == maps(60, 30, 100)
    ops = operators(network)
    (op,) = (op for op in ops.schedule() if op.name == "scores forward")
    assert flops(op, unsplit(ops.graph[op.node], ROWS)) == 2 * ROWS * 4 * 5 * 3 * 5


def test_an_embedding_moves_rows_and_its_update_the_table() -> None:
    net = Builder("words", 1, 5)
    net.embedding("table", 1000, 8)
    net.other("positions", "add_table", extra=40)
    net.linear("head", 2)
    bytes_ = moved(net.build())
    rows = ROWS * 5 * 8
    assert bytes_["table forward"] == maps(5) + 2 * rows + maps(40)
    assert bytes_["table gradient"] == maps(5) + maps(40) + (4 + 4) * rows + 4 * 8000
    assert bytes_["table update"] == 28 * (8000 + 40)
    assert bytes_["head forward"] == maps(40, 10) + 2 * 16  # positions ride on the read
    assert "table backward" not in bytes_


def test_tied_weights_are_summed_in_place_and_updated_once() -> None:
    net = Builder("tied", 1, 5)
    net.embedding("table", 1000, 8)
    net.linear("head", 1000, bias=True, shared="table")
    bytes_ = moved(net.build())
    assert bytes_["head gradient"] == maps(40, 5000) + 4 * 8000
    assert bytes_["table gradient"] == maps(5) + maps(40) + (4 + 4) * ROWS * 40
    assert bytes_["table update"] == 28 * 8000
    assert bytes_["head update"] == 28 * 1000


def test_tied_products_add_to_the_gradient_that_is_there() -> None:
    net = Builder("tied", 8, 1)
    net.linear("one", 8)
    net.linear("two", 8, shared="one")
    bytes_ = moved(net.build())
    assert bytes_["two gradient"] == maps(8, 8) + 4 * 64
    assert bytes_["one gradient"] == maps(8, 8) + 8 * 64


@pytest.mark.parametrize(("kind", "gates"), [("lstm", 4), ("gru", 3)])
def test_recurrent_cells(kind: str, gates: int) -> None:
    """The state's weights are read at each of 5 steps, the input's once; gates are kept."""
    net = Builder("cells", 1, 5)
    net.embedding("table", 100, 6)
    net.cell(kind, "cell", 8, directions=2, bias=True)
    network = net.build()
    units, into, out, bytes_ = 8, 6 * 5, 2 * 8 * 5, moved(network)
    weights = 2 * (2 * gates * units * 6) + 2 * 5 * (2 * gates * units * units)
    assert bytes_["cell forward"] == maps(into, out, (gates + 1) * out) + weights
    back = maps(out, (gates + 1) * out, gates * out, into) + weights
    assert bytes_["cell backward"] == back
    ours = network.layers[1]
    assert bytes_["cell gradient"] == maps(into, out, gates * out) + 4 * ours.weights
    assert bytes_["cell update"] == 28 * ours.parameters
    (op,) = (op for op in operators(network).schedule() if op.name == "cell forward")
    assert op.steps == 5


def test_a_cell_that_is_first_still_goes_back_through_time() -> None:
    net = Builder("cell", 6, 5)
    net.cell("lstm", "cell", 8)
    bytes_ = moved(net.build())
    assert bytes_["cell backward"] == maps(40, 5 * 40, 4 * 40) + 2 * 5 * (4 * 8 * 8)


def test_joins_of_unlike_operands() -> None:
    net = Builder("joins", 4, 2, 2)
    one = net.conv("one", 3, 1)
    net.conv("two", 5, 1, after="input")
    net.batch_norm("norm")
    net.concat("concat", one, "norm")
    net.conv("three", 8, 1)
    net.mul("mul", "three", "concat")
    net.conv("four", 2, 1)
    network = net.build()
    bytes_ = moved(network)
    assert bytes_["concat forward"] == maps(12, 20, 32)
    assert bytes_["mul forward"] == maps(32, 32, 32)
    assert bytes_["mul backward"] == maps(32, 32, 32, 32, 32)
    # both gradients, the raw output behind the norm; a slice for each branch
    assert bytes_["concat backward"] == maps(32, 32, 20, 12, 20)
    assert reads(network, "one gradient") == ["input", "gradient of concat's input 1"]
    assert bytes_["two gradient"] == maps(16, 20, 20) + 4 * 20
    assert "norm reductions" not in bytes_


def test_an_operator_of_several_inputs_writes_a_gradient_for_each() -> None:
    net = Builder("pairs", 4, 5)
    one, two = net.linear("one", 3), net.linear("two", 3, after="input")
    net.other("pairs", "tanh_of_pairs", Tensor(3, 25), one, two, "input", extra=4)
    net.linear("score", 1)
    network = net.build()
    bytes_ = moved(network)
    assert bytes_["pairs forward"] == maps(15, 15, 20, 75)
    assert bytes_["pairs backward"] == maps(75, 15, 15, 20, 15, 15)  # none for the input
    assert bytes_["pairs update"] == pytest.approx(28 * 4)


@pytest.mark.parametrize("operator", ["gelu", "tanh", "silu", "relu6"])
def test_what_rides_is_undone_by_whoever_wrote_it(operator: str) -> None:
    net = Builder("ride", 4, 5)
    net.linear("one", 8)
    net.other("ride", operator)
    net.linear("two", 4)
    network = net.build()
    assert reads(network, "two forward") == ["one"]
    assert reads(network, "one gradient")[-1] == "one"
    assert not [name for name in moved(network) if name.startswith("ride")]


def test_rotations_need_no_values_and_norms_are_operators() -> None:
    net = Builder("ride", 4, 5)
    net.linear("one", 8)
    net.other("rotary", "rotary")
    net.other("norm", "layer_norm", extra=16)
    net.linear("two", 4)
    network = net.build()
    assert reads(network, "one gradient") == ["input", "gradient of norm's input"]
    bytes_ = moved(network)
    assert bytes_["norm forward"] == maps(40, 40)
    assert bytes_["norm backward"] == maps(40, 40, 40)


def test_depthwise_weights_are_one_matrix_a_group() -> None:
    net = Builder("depthwise", 8, 4, 4)
    net.conv("point", 16, 1)
    net.conv("depth", 16, 3, 1, 1, groups=16)
    bytes_ = moved(net.build())
    assert bytes_["depth forward"] == maps(256, 256) + 2 * 16 * 9
    assert bytes_["depth gradient"] == maps(256, 256) + 4 * 16 * 9


def test_gpt2_summed_otherwise() -> None:
    """docs/explanation/operators.md's table for GPT-2, added up from its sizes without a graph."""
    s, d, v, heads, layers = 16, 768, 50_257, 12, 12
    element, x, probabilities = 2 * ROWS, s * d, heads * s * s
    norm = 5 * x  # forward R W, backward R R W

    def linear(into: int, out: int, raw: int = 0) -> float:
        """Forward, backward and gradient, each of two maps; ``raw``: its own output twice."""
        return element * 3 * s * (into + out) + element * 2 * raw + (2 + 2 + 4) * into * out

    attention = 3 * (2 * probabilities + 4 * x) + 5 * probabilities
    split = 6 * x  # the sum of three parts
    adds = 2 * (3 * x + 3 * x)  # forward, and backward R both incoming gradients, W one
    block: float = element * (2 * norm + attention + split + adds)
    block += linear(d, 3 * d) + linear(d, d) + linear(d, 4 * d, 4 * x) + linear(4 * d, d)
    total = layers * block + element * norm + linear(d, v) + element * 5 * s * v
    total += element * (s + 2 * x) + element * (s + x) + (4 + 4) * ROWS * x
    total += element * 3 * x  # the embedding's gradient is summed of two
    total -= element * 3 * x  # the last add's gradient comes from the norm alone and is passed on
    network = load_network("gpt2:seq=16")
    total += 28 * network.parameters
    assert sum(moved(network).values()) == pytest.approx(total)
