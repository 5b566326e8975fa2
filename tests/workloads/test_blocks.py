"""The blocks that networks repeat."""

from workloads import load_network
from workloads.attention import attention_cores
from workloads.network import blocks


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
    assert len(blocks(load_network("resnet50"))) == 4


def test_the_core_of_attention() -> None:
    names = "scores", "softmax", "dropout", "context"
    network = load_network("gpt3-125m:layers=2:seq=8")
    whole = [tuple(f"layer{i}.attention.{name}" for name in names) for i in range(2)]
    assert list(attention_cores(network)) == whole
    fused = load_network("gpt3-125m:layers=2:seq=8:attention=fused")
    assert attention_cores(fused) == tuple((f"layer{i}.attention.context",) for i in range(2))
    assert attention_cores(load_network("lenet")) == ()
