"""Networks condensed to products and joins, against a walk from every layer backwards."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings

from tests.strategies import convolutional_networks, networks
from workloads import Builder, Layer, Network, Tensor, load_network, partition_graph
from workloads.cache import once_for_each
from workloads.stages import cut

ZOO = ["lenet", "resnet18", "mobilenet-v2", "vit-b16", "gnmt:seq=4", "llama-7b:seq=4"]


PRODUCTS = {"conv", "fc", "embedding", "lstm", "gru", "matmul", "attention"}
JOINS = {"add", "mul", "concat"}
UNARY = {"max_pool", "avg_pool", "batch_norm", "relu", "softmax"}


class Slow:
    """Nodes found by asking, for each layer anew, what stands behind it."""

    def __init__(self, network: Network) -> None:
        self.layers = {layer.name: layer for layer in network.layers}
        self.known: dict[str, int] = {}
        self.nodes = [name for name in self.layers if self.node(name)]

    def behind(self, name: str) -> str | None:
        """The node whose layout a tensor has: the first, where several things are read."""
        if name not in self.layers:
            return None
        if self.node(name):
            return name
        sources = self.layers[name].inputs
        return next((found for s in sources if (found := self.behind(s)) is not None), None)

    def node(self, name: str) -> bool:
        layer = self.layers[name]
        if layer.kind in PRODUCTS | JOINS:
            return True
        return layer.kind == "other" and len(set(self.producers(name))) > 1

    def producers(self, name: str) -> list[str]:
        return [found for s in self.layers[name].inputs if (found := self.behind(s)) is not None]

    def depth(self, name: str) -> int:
        """Products on the longest path that ends in a node."""
        if name not in self.known:
            below = max((self.depth(p) for p in self.producers(name)), default=0)
            self.known[name] = below + (self.layers[name].kind in PRODUCTS)
        return self.known[name]

    def main(self, name: str) -> str | None:
        """Where a join's longest path has its last product; of equally long ones the first."""
        if self.layers[name].kind in PRODUCTS:
            return None
        deepest = max(self.producers(name), key=self.depth, default=None)
        if deepest is None or self.layers[deepest].kind in PRODUCTS:
            return deepest
        return self.main(deepest)


def check(network: Network) -> None:
    slow, graph = Slow(network), partition_graph(network)
    assert [node.name for node in graph] == slow.nodes
    for node in graph:
        layer = slow.layers[node.name]
        assert [graph[p].name for p in node.producers] == slow.producers(node.name)
        reads = [
            tensor
            for source, tensor in zip(layer.inputs, layer.operands, strict=True)
            if slow.behind(source) is not None
        ]
        assert list(node.reads) == reads
        assert (None if node.main is None else graph[node.main].name) == slow.main(node.name)
        assert node.join == (layer.kind not in PRODUCTS)
        assert node.transposed == layer.transposed
        tied = None if node.tied is None else graph[node.tied].name
        assert tied == (layer.shared or None)


@settings(deadline=None)
@given(networks(most=6))
def test_random_graphs(network: Network) -> None:
    check(network)


@settings(deadline=None)
@given(convolutional_networks(most=9))
def test_random_graphs_whose_shapes_fit(network: Network) -> None:
    check(network)


@settings(deadline=None)
@given(networks())
def test_nodes_count_the_weights_and_products_of_their_layers(network: Network) -> None:
    """Cells as one matrix for features and state, gathers without a product."""
    layers = {layer.name: layer for layer in network.layers}
    for node in partition_graph(network):
        layer = layers[node.name]
        if node.join:
            continue
        weights = node.in_channels * node.out_channels * node.kernel_area // node.groups
        if node.kind != "matmul":
            assert weights == layer.weights
            area = node.in_area if node.transposed else node.out_area
            gathered = node.kind == "embedding"
            assert (0 if gathered else weights * area) == layer.macs
        else:
            assert node.in_channels * node.in_area * node.out_channels // node.groups == layer.macs
            assert node.operand == layer.operands[1].elements


def behind_alone(network: Network, name: str) -> Iterator[Layer]:
    """Unary layers that read one another and nobody else reads along the way."""
    readers = [layer for layer in network.layers for s in layer.inputs if s == name]
    if len(readers) == 1 and readers[0].kind in UNARY:
        yield readers[0]
        yield from behind_alone(network, readers[0].name)


@settings(deadline=None)
@given(convolutional_networks())
def test_the_pooled_area_is_the_last_of_a_chain_that_only_one_reads(network: Network) -> None:
    layers = {layer.name: layer for layer in network.layers}
    for node in partition_graph(network):
        chain = [layers[node.name], *behind_alone(network, node.name)]
        assert node.pooled_area == chain[-1].output.area


@pytest.mark.parametrize("name", ZOO)
def test_the_zoo(name: str) -> None:
    check(load_network(name))


def test_recurrent_cells_have_one_matrix_and_gates_as_columns() -> None:
    layer = Layer("c", "gru", ("input",), Tensor(5, 7), Tensor(6, 7), directions=2)
    (node,) = partition_graph(Network("net", layer.input, (layer,)))
    assert (node.in_channels, node.out_channels) == (5 + 3, 3 * 6)


def test_a_joins_main_path_has_the_most_products_not_the_most_nodes() -> None:
    """Two products one after the other, beside one product and three sums."""
    shape = Tensor(4, 2)

    def fc(name: str, source: str) -> Layer:
        return Layer(name, "fc", (source,), shape, shape)

    def add(name: str, *sources: str) -> Layer:
        return Layer(name, "add", sources, shape, shape)

    sums = (add("s1", "a", "a"), add("s2", "s1", "a"), add("s3", "s2", "a"))
    layers = (fc("a", "input"), fc("b", "input"), fc("c", "b"), *sums, add("end", "s3", "c"))
    graph = partition_graph(Network("net", shape, layers))
    assert [graph[node.main].name for node in graph if node.main is not None] == ["a"] * 3 + ["c"]


def test_a_join_without_a_product_before_it_follows_nobody() -> None:
    wide = Tensor(4, 2)
    network = Network(
        "net",
        wide,
        (
            Layer("sum", "add", ("input", "input"), wide, wide),
            Layer("f", "fc", ("sum",), wide, wide),
        ),
    )
    join, product = partition_graph(network)
    assert (join.main, join.producers, join.reads) == (None, (), ())
    assert product.producers == (0,)


def test_equal_networks_share_an_answer_and_unlike_ones_of_one_name_do_not() -> None:
    asked: list[Network] = []

    @once_for_each
    def layers(network: Network) -> int:
        asked.append(network)
        return len(network.layers)

    one, other = load_network("lenet"), load_network("lenet")
    assert layers(one) == layers(one) == layers(other) == len(one.layers)
    assert asked == [one]
    nets = [Builder("net", 4, 1), Builder("net", 4, 1)]
    for net, features in zip(nets, (5, 6), strict=True):
        net.fc("f", features)
    small, large = (net.build() for net in nets)
    assert hash(small) == hash(large)
    assert [partition_graph(x)[0].out_channels for x in (small, large, small)] == [5, 6, 5]


def test_a_networks_graph_is_made_once_and_so_are_its_cuts() -> None:
    network = load_network("lenet")
    assert partition_graph(network) is partition_graph(load_network("lenet"))
    assert cut(network, (0, 2)) is cut(network, (0, 2))
    assert cut(network, (0, 2)) != cut(network, (0, 3))
