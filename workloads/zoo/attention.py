"""What transformers share: attention as two products of its own, norms, and feed-forward blocks."""

from __future__ import annotations

from workloads.builder import Builder
from workloads.tensors import Tensor


def norm(
    net: Builder, name: str, operator: str, after: str | None = None, *, bias: bool = True
) -> str:
    """``layer_norm`` (a scale and, as a ``bias``, a shift for each feature) or ``rms_norm``."""
    source = after or net.last
    features = net.shape(source).channels
    extra = 2 * features if operator == "layer_norm" and bias else features
    return net.other(name, operator, None, source, extra=extra)


def attend(
    net: Builder,
    name: str,
    query: str,
    key: str,
    value: str,
    heads: int,
    *,
    causal: bool = False,
    dropout: bool = False,
) -> str:
    """Softmax(Q K^T) V in every head; the scale and the mask belong to the softmax.

    Keys and values may have fewer heads than queries (grouped-query attention).
    Scores are one map of ``heads * keys`` channels over the query positions.
    """
    keys = net.shape(key).height
    net.matmul(f"{name}.scores", query, key, heads * keys, heads)
    probabilities = net.softmax(f"{name}.softmax", causal=causal)
    if dropout:
        probabilities = net.other(f"{name}.dropout", "dropout")
    each = net.shape(query).channels // heads
    features = net.shape(value).channels // (net.shape(key).channels // each)
    return net.matmul(f"{name}.context", probabilities, value, features * heads, heads)


def fused_attention(
    net: Builder, name: str, source: str, heads: int, *, dropout: bool = False
) -> str:
    """Self-attention whose query, key and value come from one linear layer, with biases."""
    shape = net.shape(source)
    fused = net.linear(f"{name}.qkv", 3 * shape.channels, bias=True, after=source)
    query, key, value = (net.other(f"{name}.{part}", "slice", shape, fused) for part in "qkv")
    attend(net, name, query, key, value, heads, dropout=dropout)
    return net.linear(f"{name}.output", shape.channels, bias=True)


def first_position(net: Builder, name: str, source: str) -> str:
    """The features of the class token, as a vector."""
    return net.other(name, "slice", Tensor(net.shape(source).channels), source)
