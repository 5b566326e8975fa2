"""DenseNet-121 (Huang et al. 2017, Table 1) on 224x224 images."""

from __future__ import annotations

from workloads.builder import Builder
from workloads.network import Network

_BLOCKS = (6, 12, 24, 16)
_GROWTH = 32


def densenet() -> Network:
    """Every layer of a block reads what all layers before it wrote, concatenated."""
    net = Builder("densenet121", 3, 224, 224)
    net.conv("stem", 2 * _GROWTH, 7, 2, 3)
    net.batch_norm("stem.bn")
    net.relu("stem.relu")
    last = net.pool("stem.pool", 3, 2, 1)
    for block, layers in enumerate(_BLOCKS, 1):
        for i in range(layers):
            last = _layer(net, f"block{block}.{i}", last)
        if block < len(_BLOCKS):
            last = _transition(net, f"transition{block}", last)
    net.batch_norm("norm")
    net.relu("relu")
    net.pool("avgpool", 7, 1, average=True)
    net.fc("fc", 1000, bias=True)
    net.softmax("softmax")
    return net.build("DenseNet-121 (Huang et al. 2017)")


def _layer(net: Builder, name: str, source: str) -> str:
    """A bottleneck of growth rate 32, appended to what it read.

    One concatenation for each layer, on the one before: the same channels in
    the same order as concatenating all of them at once, and a narrow graph.
    """
    _norm_conv(net, f"{name}.conv1", 4 * _GROWTH, 1, source)
    new = _norm_conv(net, f"{name}.conv2", _GROWTH, 3)
    return net.concat(f"{name}.concat", source, new)


def _transition(net: Builder, name: str, source: str) -> str:
    _norm_conv(net, f"{name}.conv", net.shape(source).channels // 2, 1, source)
    return net.pool(f"{name}.pool", 2, 2, average=True)


def _norm_conv(
    net: Builder, name: str, channels: int, kernel: int, after: str | None = None
) -> str:
    net.batch_norm(f"{name}.bn", after)
    net.relu(f"{name}.relu")
    return net.conv(name, channels, kernel, 1, kernel // 2)
