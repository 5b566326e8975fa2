"""Llama-style decoders: RMS norms, rotary positions, a gated feed-forward, no biases."""

from __future__ import annotations

from dataclasses import dataclass

from workloads.builder import Builder
from workloads.layers import Network
from workloads.zoo.attention import attend, norm


@dataclass(frozen=True, slots=True)
class _Size:
    layers: int
    features: int
    heads: int
    key_heads: int
    hidden: int
    vocabulary: int
    paper: str


_SIZES = {
    "llama-7b": _Size(32, 4096, 32, 32, 11_008, 32_000, "Touvron et al. 2023"),
    "llama3-8b": _Size(32, 4096, 32, 8, 14_336, 128_256, "Grattafiori et al. 2024"),
    "llama3-405b": _Size(126, 16_384, 128, 8, 53_248, 128_256, "Grattafiori et al. 2024"),
}
"""The Llama 3 paper's Table 3, with its vocabulary of 128,000 tokens and 256 special ones."""


def llama(name: str, sequence: int) -> Network:
    """Llama 7B, or a Llama 3 with grouped-query attention; the head is not tied."""
    size = _SIZES[name]
    net = Builder(name, 1, sequence)
    last = net.embedding("embedding", size.vocabulary, size.features)
    for i in range(size.layers):
        last = _block(net, f"layer{i}", last, size)
    norm(net, "norm", "rms_norm")
    net.linear("head", size.vocabulary)
    net.softmax("softmax")
    return net.build(f"{name} ({size.paper}), {sequence} tokens")


def _block(net: Builder, name: str, source: str, size: _Size) -> str:
    entry = norm(net, f"{name}.norm1", "rms_norm", source)
    keys = size.features // size.heads * size.key_heads
    query, key, value = (
        net.linear(f"{name}.{part}", features, after=entry)
        for part, features in (("query", size.features), ("key", keys), ("value", keys))
    )
    query, key = (net.other(f"{part}.rotary", "rotary", None, part) for part in (query, key))
    attend(net, f"{name}.attention", query, key, value, size.heads)
    net.linear(f"{name}.output", size.features)
    middle = net.add(f"{name}.add1", f"{name}.output", source)
    entry = norm(net, f"{name}.norm2", "rms_norm")
    net.linear(f"{name}.gate", size.hidden, after=entry)
    gate = net.other(f"{name}.silu", "silu")
    up = net.linear(f"{name}.up", size.hidden, after=entry)
    net.mul(f"{name}.mul", gate, up)
    output = net.linear(f"{name}.down", size.features)
    return net.add(f"{name}.add2", output, middle)
