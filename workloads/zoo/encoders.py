"""Transformers that see every position: BERT for pre-training, and ViT-B/16 on images."""

from __future__ import annotations

from workloads.builder import Builder
from workloads.network import Network
from workloads.tensors import NetworkError, Tensor
from workloads.zoo.attention import attend, feed_forward, first_position, fused_attention, norm

VOCABULARY, POSITIONS, SEGMENTS = 30_522, 512, 2
"""Sizes of the released uncased models."""
_BERT = {"base": (12, 768, 12), "large": (24, 1024, 16)}
_LAYERS, _FEATURES, _HEADS, _PATCHES = 12, 768, 12, 14 * 14


def bert(size: str, sequence: int = POSITIONS) -> Network:
    """BERT-base or -large with the masked-token and next-sentence heads.

    The decoder of the masked-token head is tied to the word embedding and runs
    at every position. Raises NetworkError for sequences beyond the position table.
    """
    layers, features, heads = _BERT[size]
    if sequence > POSITIONS:
        raise NetworkError(f"bert-{size}: seq={sequence} is beyond its {POSITIONS} positions")
    net = Builder(f"bert-{size}", 1, sequence)
    net.embedding("embedding", VOCABULARY, features)
    tables = (POSITIONS + SEGMENTS) * features
    net.other("positions", "add_table", extra=tables)
    last = norm(net, "norm", "layer_norm")
    for i in range(layers):
        last = _bert_block(net, f"layer{i}", last, heads)
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


def _bert_block(net: Builder, name: str, source: str, heads: int) -> str:
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


def vit() -> Network:
    """Patches of 16x16, a class token, pre-norm blocks, and a classifier on the class token."""
    net = Builder("vit-b16", 3, 224, 224)
    net.conv("patches", _FEATURES, 16, 16, bias=True)
    net.other("sequence", "reshape", Tensor(_FEATURES, _PATCHES))
    whole = Tensor(_FEATURES, _PATCHES + 1)
    net.other("class_token", "prepend", whole, extra=_FEATURES)
    last = net.other("positions", "add_table", extra=whole.elements)
    for i in range(_LAYERS):
        name = f"layer{i}"
        source = norm(net, f"{name}.norm1", "layer_norm", last)
        output = fused_attention(net, f"{name}.attention", source, _HEADS)
        last = net.add(f"{name}.add1", output, last)
        source = norm(net, f"{name}.norm2", "layer_norm")
        last = net.add(f"{name}.add2", feed_forward(net, name, source, 4 * _FEATURES), last)
    last = norm(net, "norm", "layer_norm")
    first_position(net, "first", last)
    net.fc("head", 1000, bias=True)
    net.softmax("softmax")
    return net.build("ViT-B/16 (Dosovitskiy et al. 2020)")
