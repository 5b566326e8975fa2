"""ViT-B/16 (Dosovitskiy et al. 2020) on 224x224 images."""

from __future__ import annotations

from workloads.builder import Builder
from workloads.network import Network
from workloads.tensors import Tensor
from workloads.zoo.attention import feed_forward, first_position, fused_attention, norm

_LAYERS, _FEATURES, _HEADS, _PATCHES = 12, 768, 12, 14 * 14


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
