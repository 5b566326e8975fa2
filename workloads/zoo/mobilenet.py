"""MobileNet-v2 (Sandler et al. 2018, Table 2), width 1, on 224x224 images."""

from __future__ import annotations

from workloads.builder import Builder
from workloads.network import Network

_STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks, and the first block's stride."""


def mobilenet() -> Network:
    """Inverted residuals around depthwise convolutions."""
    net = Builder("mobilenet-v2", 3, 224, 224)
    last = _conv(net, "stem", 32, 3, 2)
    for stage, (expansion, channels, blocks, stride) in enumerate(_STAGES):
        for i in range(blocks):
            name = f"block{stage}.{i}"
            last = _block(net, name, last, expansion, channels, stride if i == 0 else 1)
    _conv(net, "top", 1280, 1, 1)
    net.pool("avgpool", 7, 1, average=True)
    net.fc("fc", 1000, bias=True)
    net.softmax("softmax")
    return net.build("MobileNet-v2 (Sandler et al. 2018)")


def _block(net: Builder, name: str, source: str, expansion: int, channels: int, stride: int) -> str:
    into = net.shape(source).channels
    wide = source
    if expansion > 1:
        wide = _conv(net, f"{name}.expand", into * expansion, 1, 1, source)
    _conv(net, f"{name}.depthwise", into * expansion, 3, stride, wide, into * expansion)
    net.conv(f"{name}.project", channels, 1)
    last = net.batch_norm(f"{name}.project.bn")
    if stride == 1 and channels == into:
        return net.add(f"{name}.add", source, last)
    return last


def _conv(
    net: Builder,
    name: str,
    channels: int,
    kernel: int,
    stride: int,
    after: str | None = None,
    groups: int = 1,
) -> str:
    net.conv(name, channels, kernel, stride, kernel // 2, groups=groups, after=after)
    net.batch_norm(f"{name}.bn")
    return net.other(f"{name}.relu6", "relu6")
