"""docs/explanation/partitions.md derived again: products as index sums, cut along one index.

A split along an index that a product keeps leaves each side a part of the
result; along an index it sums over, each side holds partial sums of the whole.
"""

import numpy as np
import pytest

from hardware import load_array
from planners import Partition, PartitionType, Plan, PlanError, Split, load_planner
from planners.partition import II, III, IV, WHOLE, I, Shard, V, legal, partial_sums
from simulator import simulate
from tests.planners.slow_sizes import shrink, sizes
from workloads import Builder, Layer, Network, Node, Tensor, load_network, partition_graph

SIZE = {"b": 4, "g": 6, "i": 4, "o": 2, "m": 6, "k": 4, "n": 8, "v": 10, "d": 6, "p": 4}
PRODUCTS = {
    # forward, backward, gradient; and the index that each type cuts
    "fc": (("bi,io->bo", "bo,io->bi", "bi,bo->io"), {I: "b", II: "i", III: "o"}),
    "linear": (
        ("bpi,io->bpo", "bpo,io->bpi", "bpi,bpo->io"),
        {I: "b", II: "i", III: "o", V: "p"},
    ),
    "grouped": (
        ("bgi,gio->bgo", "bgo,gio->bgi", "bgi,bgo->gio"),
        {I: "b", II: "i", III: "o", IV: "g"},
    ),
    "matmul": (
        ("bgmk,bgkn->bgmn", "bgmn,bgkn->bgmk", "bgmk,bgmn->bgkn"),
        {I: "b", IV: "g", V: "m"},
    ),
    # a gather is a product with one-hot rows; ids have no error
    "embedding": (("bpv,vd->bpd", "", "bpv,bpd->vd"), {I: "b", II: "v", III: "d", V: "p"}),
}
NODES = {
    "fc": Node("fc", "fc", 4, 2, 1, 1, 1, 1, ()),
    "linear": Node("linear", "fc", 4, 2, 1, 4, 4, 4, ()),
    "grouped": Node("grouped", "conv", 24, 12, 1, 1, 1, 1, (), groups=6),
    "matmul": Node("matmul", "matmul", 24, 48, 1, 6, 6, 6, (), groups=6, operand=6 * 4 * 8),
    "embedding": Node("embedding", "embedding", 10, 6, 1, 4, 4, 4, ()),
}


def tensor(indices: str) -> np.ndarray:
    rng = np.random.default_rng(len(indices))
    return rng.integers(-9, 9, [SIZE[index] for index in indices])


def halves(array: np.ndarray, indices: str, cut: str) -> list[np.ndarray]:
    """The two sides' parts, or the whole twice where the index is not the tensor's."""
    return np.split(array, 2, indices.index(cut)) if cut in indices else [array, array]


@pytest.mark.parametrize("kind", PRODUCTS)
def test_which_products_leave_partial_sums(kind: str) -> None:
    """And exactly those are charged, with the size of what is summed."""
    products, cuts = PRODUCTS[kind]
    size = sizes(NODES[kind], SIZE["b"], WHOLE)
    assert legal(NODES[kind]) == tuple(cuts)
    for partition, cut in cuts.items():
        summed = 0
        for product in filter(None, products):
            (one, other), result = product.split("->")[0].split(","), product.split("->")[1]
            whole = np.einsum(product, tensor(one), tensor(other))
            parts = [
                np.einsum(product, *operands)
                for operands in zip(
                    halves(tensor(one), one, cut), halves(tensor(other), other, cut), strict=True
                )
            ]
            if cut in result:
                assert (np.concatenate(parts, result.index(cut)) == whole).all()
            else:
                assert (sum(parts) == whole).all()
                summed += whole.size
        assert partial_sums(partition, size) == summed


@pytest.mark.parametrize("kind", ["fc", "linear", "grouped", "matmul"])
def test_flops_count_the_products(kind: str) -> None:
    products, _ = PRODUCTS[kind]
    flops = []
    for product in products:
        operands, result = product.split("->")
        summed = set(operands) - {","} - set(result)
        terms = int(np.prod([SIZE[index] for index in summed]))
        flops.append(float(np.prod([SIZE[index] for index in result]) * (2 * terms - 1)))
    if kind == "grouped":  # a convolution's backward is counted on its output
        flops[1] = flops[0]
    assert sizes(NODES[kind], SIZE["b"], WHOLE).flops == tuple(flops)


@pytest.mark.parametrize("kind", PRODUCTS)
@pytest.mark.parametrize("share", [0.5, 0.25])
def test_what_a_side_keeps(kind: str, share: float) -> None:
    """Tensors that have the index shrink by the share, the others stay; so does the work."""
    products, cuts = PRODUCTS[kind]
    operands, output = products[0].split("->")
    source, weights = operands.split(",")
    whole = sizes(NODES[kind], 8, WHOLE)
    for partition, cut in cuts.items():
        kept = sizes(NODES[kind], 8, shrink(WHOLE, partition, share))

        def part(indices: str, cut: str = cut) -> float:
            return share if cut in indices else 1.0

        assert kept.weights == whole.weights * part(weights)
        assert kept.input == whole.input * part(source)
        assert kept.output == whole.output * part(output)
        if kind != "matmul" and partition is IV:
            assert kept.flops == tuple(share * flops for flops in whole.flops)


def test_groups_are_cut_whole() -> None:
    """IV needs two groups; a group of one channel is not cut along its channels."""
    grouped, depthwise = NODES["grouped"], Node("d", "conv", 6, 6, 9, 1, 1, 1, (), groups=6)
    assert legal(depthwise) == (I, IV)
    assert legal(Node("d", "conv", 6, 12, 9, 1, 1, 1, (), groups=6)) == (I, III, IV)
    assert legal(grouped, Shard(groups=2 / 6)) == (I, II, III, IV)
    assert legal(grouped, Shard(groups=1 / 6)) == (I, II, III)
    assert legal(depthwise, Shard(groups=1 / 6)) == (I,)
    assert legal(Node("l", "lstm", 8, 16, 1, 3, 3, 3, ())) == (I,)
    assert legal(Node("a", "concat", 8, 8, 1, 3, 3, 3, ())) == (I, II, III, V)


@pytest.mark.parametrize("planner", ["owt", "hypar", "accpar"])
@pytest.mark.parametrize("name", ["mobilenet-v2", "bert-base:seq=32", "llama3-8b:seq=8", "gnmt"])
def test_plans_keep_to_legal_types(name: str, planner: str) -> None:
    """Down to the last level, where the heads have run out."""
    array = load_array("accpar-homogeneous")
    network = load_network(name)
    graph = partition_graph(network)
    plan = load_planner(planner)(network, array, 128)
    scales = [WHOLE] * len(graph)
    found = set()
    for split in plan.levels() or []:
        for v, node in enumerate(graph):
            kind = split.partitions[v].type
            assert kind in legal(node, scales[v])
            scales[v] = shrink(scales[v], kind, 0.5)
            found.add(kind)
    for node, scale in zip(graph, scales, strict=True):
        assert node.groups * scale.groups >= 1.0
    assert (IV in found) <= (planner == "accpar")


def test_heads_are_split_where_that_pays() -> None:
    """Heads between columns written and columns read: one exchange in each direction."""
    net = Builder("net", 64, 4)
    net.linear("fused", 3 * 64)
    query, key, value = (net.other(part, "slice", Tensor(64, 4), "fused") for part in "qkv")
    net.matmul("scores", query, key, 8 * 4, 8)
    net.matmul("context", "scores", value, 64, 8)
    net.linear("output", 64)
    plan = load_planner("accpar")(net.build(), load_array("accpar-homogeneous"), 2)
    assert plan.root is not None
    assert plan.root.types == (III, IV, IV, II)  # as Megatron splits it


def test_a_plan_of_an_illegal_type_is_refused() -> None:
    layer = Layer("cell", "lstm", ("input",), Tensor(4, 3), Tensor(4, 3))
    network = Network("net", Tensor(4, 3), (layer,))
    root = Split((Partition(PartitionType.III, 0.5),), 0.0, (None,))
    array = load_array("accpar-homogeneous", ["devices.0.count=2"])
    with pytest.raises(PlanError, match=r"'cell' \(lstm\) by type III at level 0.*one of I"):
        simulate(network, Plan("mine", "net", 4, "time", ("cell",), root), array)
