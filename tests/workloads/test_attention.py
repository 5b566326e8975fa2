"""Attention in one operator and in its parts: the same products, by the same names."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.cost.operators import Operators
from simulator.cost.training_operators import operators
from workloads import Builder, Layer, Network, NetworkError, Tensor, load_network, with_attention
from workloads.attention import attention_cores
from workloads.graph import partition_graph
from workloads.network import blocks


def grouped(heads: int, kv_heads: int, features: int, values: int, positions: int) -> Network:
    net = Builder("grouped", 8, positions)
    query = net.linear("query", heads * features, after="input")
    key = net.linear("key", kv_heads * features, after="input")
    value = net.linear("value", kv_heads * values, after="input")
    net.matmul("scores", query, key, heads * positions, heads)
    net.softmax("softmax", causal=True)
    net.matmul("context", "softmax", value, heads * values, heads)
    net.linear("output", 8)
    return net.build()


@given(*[st.integers(1, 6) for _ in range(5)])
def test_there_and_back(kv_heads: int, each: int, features: int, values: int, length: int) -> None:
    network = grouped(kv_heads * each, kv_heads, features, values, length)
    fused = with_attention(network, "fused")
    kinds = [layer.kind for layer in fused.layers]
    assert kinds == ["fc", "fc", "fc", "attention", "fc"]
    attention = fused.layers[3]
    assert attention.macs == kv_heads * each * length**2 * (features + values)
    assert fused.macs == network.macs
    assert fused.parameters == network.parameters
    again = with_attention(fused, "unfused")
    assert again.macs == network.macs
    assert again.layers[4].causal
    assert [layer.output for layer in again.layers] == [layer.output for layer in network.layers]
    assert with_attention(again, "fused").layers == fused.layers
    assert with_attention(fused, "fused").layers == fused.layers


def test_the_node_counts_pairs_that_are_seen() -> None:
    """Of 4 positions 10 of 16 pairs; backward 3 products of keys' features and 2 of values'."""
    fused = with_attention(grouped(6, 2, 5, 7, 4), "fused")
    node = partition_graph(fused)[3]
    assert (node.groups, node.in_channels, node.out_channels) == (2, 10, 14)
    assert node.in_area == 3 * 4  # three heads of queries for each of keys, as more positions
    assert node.fused == pytest.approx((6 * 10 * (5 + 7), 6 * 10 * (3 * 5 + 2 * 7)))
    whole = replace(fused, layers=tuple(replace(x, causal=False) for x in fused.layers))
    assert partition_graph(whole)[3].fused == (6 * 16 * 12, 6 * 16 * 29)


@pytest.mark.parametrize("name", ["bert-base", "gpt2", "vit-b16", "llama3-8b", "deepseek-v3"])
def test_attention_of_the_zoo(name: str) -> None:
    network = load_network(name)
    fused = with_attention(network, "fused")
    many = sum(layer.kind == "attention" for layer in fused.layers)
    assert many == sum(layer.name.endswith("attention.context") for layer in network.layers)
    assert not any(layer.kind == "matmul" for layer in fused.layers)
    assert fused.macs == network.macs


def test_what_somebody_else_reads_is_not_fused() -> None:
    network = grouped(2, 2, 3, 3, 4)
    last = network.layers[-1]
    shape = Tensor(8, 4)
    seen = Layer("seen", "fc", ("softmax",), network.layers[4].output, shape)
    both = Layer("both", "add", (last.name, "seen"), shape, shape)
    with pytest.raises(NetworkError, match="no attention to be fused"):
        with_attention(replace(network, layers=(*network.layers, seen, both)), "fused")


@pytest.mark.parametrize(
    ("name", "form", "words"),
    [
        ("resnet18", "fused", "network 'resnet18' has no attention to be fused"),
        ("gnmt", "fused", "no softmax between two products"),
        ("gpt2", "flash", "attention 'flash': one of fused, unfused, eager"),
    ],
)
def test_what_cannot_be(name: str, form: str, words: str) -> None:
    with pytest.raises(NetworkError, match=words):
        with_attention(load_network(name), form)


def test_shapes_that_do_not_fit() -> None:
    fused = with_attention(grouped(4, 2, 3, 5, 6), "fused")
    attention = fused.layers[3]
    for others in ((Tensor(6, 6), Tensor(10, 5)), (Tensor(9, 6), Tensor(10, 6))):
        broken = replace(attention, others=others)
        with pytest.raises(NetworkError, match="in 4 heads do not fit"):
            replace(fused, layers=(*fused.layers[:3], broken, fused.layers[4]))
    broken = replace(attention, inputs=("query", "key"), others=(Tensor(6, 6),))
    with pytest.raises(NetworkError, match="takes queries, keys and values, got 2 inputs"):
        replace(fused, layers=(*fused.layers[:3], broken, fused.layers[4]))


def test_a_block_is_what_is_called_alike_but_for_a_number() -> None:
    network = load_network("gpt2:layers=3:seq=8")
    found = blocks(network)
    assert [len(block) for block in found] == [len(found[0])] * 3
    assert found[1][0] == "layer1.norm1"
    assert found[1][-1] == "layer1.add2"
    outside = {layer.name for layer in network.layers} - {name for one in found for name in one}
    assert outside == {"embedding", "positions", "norm", "head", "softmax"}


def test_blocks_may_be_unlike_and_there_may_be_none() -> None:
    found = blocks(load_network("deepseek-v3:layers=5:seq=32"))
    assert len(found) == 5
    assert len(found[0]) < len(found[4])
    assert blocks(load_network("lenet")) == ()


def test_blocks_within_stages_are_entered_by_one_tensor() -> None:
    """Of a ResNet-50 bottlenecks, 3 + 4 + 6 + 3; of an MLP with a residual the whole."""
    found = blocks(load_network("resnet50"))
    names = [f"layer{k}.{i}" for k, many in enumerate((3, 4, 6, 3), 1) for i in range(many)]
    assert [block[0].rpartition(".")[0] for block in found] == names
    assert all(
        name.startswith(f"{one}.") for one, b in zip(names, found, strict=True) for name in b
    )
    net = Builder("mlp", 8, 1, 1)
    for k in range(3):
        before = net.last
        net.fc(f"block{k}.mlp.0.up", 16)
        net.fc(f"block{k}.mlp.1.down", 8)
        net.add(f"block{k}.mlp.2.sum", net.last, before)
    assert [len(block) for block in blocks(net.build())] == [3, 3, 3]
    net = Builder("t5", 8, 4, 1)
    for name in (f"encoder.block.{k}.layer.{j}" for k in range(3) for j in range(2)):
        before = net.last
        net.linear(f"{name}.up", 16)
        net.linear(f"{name}.down", 8)
        net.add(f"{name}.add", net.last, before)
    assert [len(block) for block in blocks(net.build())] == [6, 6, 6]  # which are alike


def test_the_core_of_attention() -> None:
    names = "scores", "softmax", "dropout", "context"
    network = load_network("gpt3-125m:layers=2:seq=8")
    whole = [tuple(f"layer{i}.attention.{name}" for name in names) for i in range(2)]
    assert list(attention_cores(network)) == whole
    fused = load_network("gpt3-125m:layers=2:seq=8:attention=fused")
    assert attention_cores(fused) == tuple((f"layer{i}.attention.context",) for i in range(2))
    assert attention_cores(load_network("lenet")) == ()


def test_eager_attention_masks_scores_in_a_kernel_of_its_own() -> None:
    unfused = grouped(6, 2, 5, 7, 4)
    eager = with_attention(unfused, "eager")
    assert [layer.name for layer in eager.layers[3:6]] == ["scores", "scores.mask", "softmax"]
    assert eager.macs == unfused.macs
    assert with_attention(eager, "eager").layers == eager.layers
    assert with_attention(eager, "fused").layers == with_attention(unfused, "fused").layers


def test_a_mask_in_a_view_moves_scores_twice_forward_and_13_times_backward() -> None:
    """PyTorch's AsStridedBackward and CopySlices: six reads, seven writes (``test_torch_mask``)."""
    eager = operators(with_attention(grouped(6, 6, 5, 7, 4), "eager"))
    unfused = operators(grouped(6, 6, 5, 7, 4))
    for phase, many in (("forward", 2), ("backward", 13)):
        before, after = passes(unfused, phase), passes(eager, phase)
        assert len(after) - len(before) == many
        assert set(after) == set(before)  # all are as large as the scores


def passes(of: Operators, phase: str) -> list[tuple[float, float]]:
    """The sizes of what softmax and mask read and write in a phase."""
    each = (op for node in of.nodes for op in getattr(node, phase))
    own = (op for op in each if op.name.split()[0] in ("softmax", "scores.mask"))
    return [(one.channels, one.area) for op in own for one in (*op.reads, *op.writes)]
