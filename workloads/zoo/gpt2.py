"""GPT-2 (Radford et al. 2019) in its four released sizes, the head tied to the embedding."""

from __future__ import annotations

from workloads.builder import Builder
from workloads.layers import Network, NetworkError
from workloads.zoo.attention import feed_forward, fused_attention, norm

VOCABULARY, POSITIONS = 50_257, 1024
_SIZES = {"": (12, 768, 12), "-medium": (24, 1024, 16), "-large": (36, 1280, 20)} | {
    "-xl": (48, 1600, 25)
}


def gpt2(size: str, sequence: int = POSITIONS) -> Network:
    """GPT-2 with its language-model head at every position.

    Raises NetworkError for sequences beyond the position table.
    """
    layers, features, heads = _SIZES[size]
    if sequence > POSITIONS:
        raise NetworkError(f"gpt2{size}: seq={sequence} is beyond its {POSITIONS} positions")
    net = Builder(f"gpt2{size}", 1, sequence)
    net.embedding("embedding", VOCABULARY, features)
    last = net.other("positions", "add_table", extra=POSITIONS * features)
    for i in range(layers):
        name = f"layer{i}"
        source = norm(net, f"{name}.norm1", "layer_norm", last)
        output = fused_attention(net, f"{name}.attention", source, heads)
        last = net.add(f"{name}.add1", output, last)
        source = norm(net, f"{name}.norm2", "layer_norm")
        last = net.add(f"{name}.add2", feed_forward(net, name, source, 4 * features), last)
    norm(net, "norm", "layer_norm")
    net.linear("head", VOCABULARY, shared="embedding")
    net.softmax("softmax")
    return net.build(f"GPT-2{size} (Radford et al. 2019), {sequence} tokens")
