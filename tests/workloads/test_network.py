import pytest

from workloads import Layer, Network, NetworkError, Tensor, partition_graph

T = Tensor(2, 4, 4)


def layer(name: str, *inputs: str, kind: str = "conv", kernel: int = 1) -> Layer:
    return Layer(name, kind, inputs, T, T, kernel)


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
    ],
)
def test_malformed_networks(layers: list[Layer], words: str) -> None:
    with pytest.raises(NetworkError) as caught:
        Network("net", T, tuple(layers))
    assert words in str(caught.value)


def test_the_graph_keeps_weighted_layers_and_joins() -> None:
    network = Network(
        "net",
        T,
        (
            layer("a", "input"),
            layer("a.relu", "a", kind="relu"),
            layer("b", "a.relu"),
            layer("b.pool", "b", kind="max_pool"),
            layer("sum", "a.relu", "b.pool", kind="add"),
            layer("sum2", "sum", "a", kind="add"),
            layer("c", "sum2"),
        ),
    )
    graph = partition_graph(network)
    assert [node.name for node in graph] == ["a", "b", "sum", "sum2", "c"]
    assert [node.producers for node in graph] == [(), (0,), (0, 1), (2, 0), (3,)]
    # a join takes the share of the weighted layer its longest path ends in
    assert [node.main for node in graph] == [None, None, 1, 1, None]


def test_an_edge_from_the_input_has_no_producer() -> None:
    network = Network("net", T, (layer("a", "input"), layer("s", "input", "a", kind="add")))
    assert [node.producers for node in partition_graph(network)] == [(), (0,)]


def test_pooled_area_follows_the_unweighted_operators() -> None:
    small = Tensor(2, 2, 2)
    network = Network(
        "net",
        T,
        (
            layer("a", "input"),
            layer("a.relu", "a", kind="relu"),
            Layer("a.pool", "max_pool", ("a.relu",), T, small, 2, 2),
            Layer("flat", "flatten", ("a.pool",), small, Tensor(8)),
            Layer("f", "fc", ("flat",), Tensor(8), Tensor(3)),
        ),
    )
    a, f = partition_graph(network)
    assert (a.out_area, a.pooled_area) == (16, 4)
    assert (f.in_channels, f.in_area, f.pooled_area) == (8, 1, 1)
