"""BERT for pre-training (Devlin et al. 2018): encoder, pooler, and both heads."""

from __future__ import annotations

from workloads.builder import Builder
from workloads.network import Network
from workloads.tensors import NetworkError
from workloads.zoo.attention import attend, feed_forward, first_position, norm

VOCABULARY, POSITIONS, SEGMENTS = 30_522, 512, 2
"""Sizes of the released uncased models."""
_SIZES = {"base": (12, 768, 12), "large": (24, 1024, 16)}


def bert(size: str, sequence: int = POSITIONS) -> Network:
    """BERT-base or -large with the masked-token and next-sentence heads.

    The decoder of the masked-token head is tied to the word embedding and runs
    at every position. Raises NetworkError for sequences beyond the position table.
    """
    layers, features, heads = _SIZES[size]
    if sequence > POSITIONS:
        raise NetworkError(f"bert-{size}: seq={sequence} is beyond its {POSITIONS} positions")
    net = Builder(f"bert-{size}", 1, sequence)
    net.embedding("embedding", VOCABULARY, features)
    tables = (POSITIONS + SEGMENTS) * features
    net.other("positions", "add_table", extra=tables)
    last = norm(net, "norm", "layer_norm")
    for i in range(layers):
        last = _block(net, f"layer{i}", last, heads)
    first_position(net, "first", last)
    net.linear("pooler", features, bias=True)
    net.other("pooler.tanh", "tanh")
    net.linear("next_sentence", 2, bias=True)
    net.linear("transform", features, bias=True, after=last)
    net.other("transform.gelu", "gelu")
    norm(net, "transform.norm", "layer_norm")
    net.linear("decoder", VOCABULARY, bias=True, shared="embedding")
    net.softmax("softmax")
    return net.build(f"BERT-{size} pre-training (Devlin et al. 2018), {sequence} tokens")


def _block(net: Builder, name: str, source: str, heads: int) -> str:
    features = net.shape(source).channels
    query, key, value = (
        net.linear(f"{name}.{part}", features, bias=True, after=source)
        for part in ("query", "key", "value")
    )
    attend(net, f"{name}.attention", query, key, value, heads)
    output = net.linear(f"{name}.output", features, bias=True)
    net.add(f"{name}.add1", output, source)
    middle = norm(net, f"{name}.norm1", "layer_norm")
    output = feed_forward(net, name, middle, 4 * features)
    net.add(f"{name}.add2", output, middle)
    return norm(net, f"{name}.norm2", "layer_norm")
