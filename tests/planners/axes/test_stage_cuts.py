"""Stages of whole blocks."""

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from planners import PlanError
from planners.axes.stage_cuts import blocks_of, first_nodes, most_stages, single_crossings
from planners.axes.stage_devices import first_nodes_of
from planners.sizing import sizing, whole
from workloads import Builder, Network, Transformer, load_network, partition_graph, transformer
from workloads.network import blocks
from workloads.zoo import NETWORKS


def firsts(name: str, stages: int) -> list[str]:
    network = load_network(name)
    graph = partition_graph(network)
    weighted = {layer.name for layer in network.layers if layer.weighted}
    found = first_nodes(graph, stages, [node.name in weighted for node in graph])
    assert list(found) == sorted(set(found))
    return [graph[v].name for v in found]


@pytest.mark.parametrize(
    ("name", "blocks", "first"),
    [
        ("gpt2", 12, "attention.qkv"),
        ("gpt2-xl", 48, "attention.qkv"),
        ("bert-large:seq=8", 24, "query"),
        ("llama3-405b:seq=8", 126, "query"),
        ("vit-b16", 12, "attention.qkv"),
    ],
)
def test_blocks_are_found_by_how_the_graph_repeats(name: str, blocks: int, first: str) -> None:
    graph = partition_graph(load_network(name))
    found = blocks_of(graph)
    assert [graph[v].name for v in found.firsts] == [f"layer{k}.{first}" for k in range(blocks)]
    assert graph[found.end - 1].name == f"layer{blocks - 1}.add2"


@pytest.mark.parametrize("dense", [0, 1, 2, 3, 4])
def test_blocks_that_begin_alike_are_blocks(dense: int) -> None:
    """DeepSeek's: some dense ones, then experts; three stages have two each, whatever they are."""
    sizes = Transformer(
        "d", 6, 64, 4, 50, seq=16, ffn=96, gated=True, norm="rms_norm", positions="rotary",
        biases=False, fused_qkv=False, experts=4, topk=2, moe_ffn=32, dense_layers=dense,
    )  # fmt: skip
    network = transformer(sizes)
    graph = partition_graph(network)
    found = blocks_of(graph)
    assert [graph[v].name for v in found.firsts] == [f"layer{k}.query" for k in range(6)]
    weighted = {layer.name for layer in network.layers if layer.weighted}
    begins = first_nodes(graph, 3, [node.name in weighted for node in graph])
    assert [graph[v].name for v in begins] == ["embedding", "layer2.query", "layer4.query"]


def test_a_few_equal_layers_are_no_blocks() -> None:
    """Three of VGG-16's 16 layers are equal; stages of one each left all else to the first."""
    graph = partition_graph(load_network("vgg16"))
    begins = [*firsts("vgg16", 4), ""]
    work, stage = [0.0] * 4, -1
    for node in graph:
        stage += node.name == begins[stage + 1]
        work[stage] += node.in_channels * node.out_channels * node.kernel_area * node.out_area
    assert max(work) < 1.5 * sum(work) / 4


def two_sizes(narrow: int) -> Network:
    """Blocks of two products and a sum, three of 64 channels and three of ``narrow``."""
    net = Builder("two", 3, 8, 8)
    net.conv("stem", 64, kernel=1)
    for k in range(6):
        if k == 3 and narrow < 64:
            net.conv("between", narrow, kernel=1)
        first = net.last
        wide = 64 if k < 3 else narrow
        net.conv(f"b{k}.up", 4 * wide, kernel=1)
        net.conv(f"b{k}.down", wide, kernel=1)
        net.add(f"b{k}.sum", f"b{k}.down", first)
    net.pool("pool", 8, 8)
    net.flatten("flat")
    net.fc("head", 10)
    return net.build()


def test_blocks_of_two_sizes() -> None:
    """What has the same operators is a block, too; what stands between belongs to the one before.

    Stages then have as many FLOPs as may be: 64 channels need 16 times those of 16.
    """
    graph = partition_graph(two_sizes(16))
    found = blocks_of(graph)
    assert [graph[v].name for v in found.firsts] == [f"b{k}.up" for k in range(6)]
    assert not found.alike
    assert graph[found.end - 1].name == "b5.sum"
    begins = first_nodes(graph, 3, [not node.join for node in graph])
    assert [graph[v].name for v in begins] == ["stem", "b1.up", "b2.up"]
    said = first_nodes_of(graph, (2, 2, 2), 3)
    assert [graph[v].name for v in said] == ["stem", "b2.up", "b4.up"]
    assert blocks_of(partition_graph(two_sizes(64))).alike


def test_as_many_blocks_in_each_stage() -> None:
    assert firsts("gpt2", 4) == ["embedding", *(f"layer{k}.attention.qkv" for k in (3, 6, 9))]
    assert firsts("gpt2", 1) == ["embedding"]


def test_both_ends_count_as_blocks_where_they_do_not_come_out() -> None:
    """As for Llama 3 405B (Grattafiori et al. 2024, section 3.3.2): 126 blocks on 16 stages."""
    begins = firsts("llama3-405b:seq=8", 16)[1:]
    assert begins == [f"layer{7 + 8 * k}.query" for k in range(15)]
    every = firsts("llama3-405b:seq=8", 128)
    assert every == ["embedding", *(f"layer{k}.query" for k in range(126)), "head"]


def test_what_is_left_over_goes_to_the_middle() -> None:
    begins = [int(name[5:].split(".")[0]) for name in firsts("gpt2", 5)[1:]]  # 14 = 3 3 3 3 2
    assert begins == [2, 5, 8, 11]


def test_without_blocks_by_flops() -> None:
    begins = firsts("vgg16", 4)
    assert begins[0] == "conv1_1"
    with pytest.raises(PlanError, match="17 stages, but only 16 layers have weights"):
        firsts("vgg16", 17)
    assert len(firsts("gpt2", 30)) == 30


@pytest.mark.parametrize("name", sorted(NETWORKS))
def test_every_network_is_cut_into_any_stages(name: str) -> None:
    """Those without blocks, too, and those that have fewer of them than stages."""
    graph = partition_graph(load_network(name))
    for stages in range(2, 1 + min(sum(not node.join for node in graph), 8)):
        assert len(firsts(name, stages)) == stages


T5 = {
    "model_type": "t5", "d_model": 64, "d_ff": 256, "d_kv": 16, "num_heads": 4, "num_layers": 6,
    "num_decoder_layers": 4, "vocab_size": 128, "feed_forward_proj": "relu", "n_positions": 32,
    "tie_word_embeddings": True, "is_encoder_decoder": True,
}  # fmt: skip


@pytest.fixture
def t5(tmp_path: Path) -> Network:
    (tmp_path / "config.json").write_text(json.dumps(T5))
    return load_network(str(tmp_path))


def test_an_encoders_blocks_are_beside_a_decoders(t5: Network) -> None:
    graph = partition_graph(t5)
    found = blocks_of(graph)
    names = [f"encoder{k}.query" for k in range(6)] + [f"decoder{k}.query" for k in range(4)]
    assert [graph[v].name for v in found.firsts] == names
    assert not found.alike
    assert graph[found.end].name == "head"
    assert most_stages(graph) == 12  # and the embedding and the head
    assert [names[0][:-6] in one for one, *_ in blocks(t5)] == [True] + [False] * 9
    assert len(blocks(t5)) == 10


def test_stages_of_both_are_whole_blocks_and_nearly_even(t5: Network) -> None:
    graph = partition_graph(t5)
    weighted = {layer.name for layer in t5.layers if layer.weighted}
    found = first_nodes(graph, 4, [node.name in weighted for node in graph])
    assert not blocks_of(graph).inside & {*found}
    work = np.add.reduce(sizing(graph).of(1, whole(graph), fused=True).flops)
    stages = [work[first:end].sum() for first, end in pairwise((*found, len(graph)))]
    assert max(stages) < 0.4 * sum(stages)  # a decoder's block is an eighth
    asked = first_nodes_of(graph, (3, 3, 2, 2), 4)
    assert [graph[v].name for v in asked[1:]] == [
        "encoder3.query",
        "decoder0.query",
        "decoder2.query",
    ]


def test_branches_of_a_block_are_beside_each_other() -> None:
    """Each of them reads one tensor, as a decoder's blocks do; no cut goes between them."""
    net = Builder("branches", 8, 8, 8)
    net.conv("stem", 8, 3, padding=1)
    for block in range(3):
        start = net.last
        ends = []
        for branch in range(4):
            net.conv(f"b{block}.{branch}.one", 8, 3, padding=1, after=start)
            ends.append(net.conv(f"b{block}.{branch}.two", 8, 3, padding=1))
        net.add(f"b{block}.sum", *ends)
    graph = partition_graph(net.build())
    cuts = ["stem", *(f"b{block}.0.one" for block in range(3))]
    assert [graph[v].name for v in single_crossings(graph)] == cuts
