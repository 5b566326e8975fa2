"""Inception-v3 (Szegedy et al. 2016) on 299x299 images, without the auxiliary classifier.

Block by block as torchvision has it: rectangular kernels, branches joined by
their channels.
"""

from __future__ import annotations

from workloads.builder import Builder
from workloads.network import Network
from workloads.tensors import Sides

Step = tuple[int, Sides]
"""Channels and kernel of one convolution of a branch, padded to keep the map."""


def inception() -> Network:
    """Eleven blocks of parallel branches."""
    net = Builder("inception-v3", 3, 299, 299)
    _conv(net, "stem1", 32, 3, 2, 0)
    _conv(net, "stem2", 32, 3, 1, 0)
    _conv(net, "stem3", 64, 3)
    net.pool("pool1", 3, 2)
    _conv(net, "stem4", 80, 1, 1, 0)
    _conv(net, "stem5", 192, 3, 1, 0)
    last = net.pool("pool2", 3, 2)
    for name, pooled in (("5b", 32), ("5c", 64), ("5d", 64)):
        last = _block_a(net, name, last, pooled)
    last = _reduce(net, "6a", last, [[(384, 3)], [(64, 1), (96, 3), (96, 3)]])
    for name, middle in (("6b", 128), ("6c", 160), ("6d", 160), ("6e", 192)):
        last = _block_c(net, name, last, middle)
    wide: list[Step] = [(192, 1), (192, (1, 7)), (192, (7, 1)), (192, 3)]
    last = _reduce(net, "7a", last, [[(192, 1), (320, 3)], wide])
    for name in ("7b", "7c"):
        last = _block_e(net, name, last)
    net.pool("avgpool", 8, 1, average=True)
    net.fc("fc", 1000, bias=True)
    net.softmax("softmax")
    return net.build("Inception-v3 (Szegedy et al. 2016), no auxiliary classifier")


def _block_a(net: Builder, name: str, source: str, pooled: int) -> str:
    branches = [
        _branch(net, f"{name}.1x1", source, [(64, 1)]),
        _branch(net, f"{name}.5x5", source, [(48, 1), (64, 5)]),
        _branch(net, f"{name}.3x3", source, [(64, 1), (96, 3), (96, 3)]),
        _pooled(net, name, source, pooled),
    ]
    return net.concat(f"{name}.concat", *branches)


def _block_c(net: Builder, name: str, source: str, c: int) -> str:
    double: list[Step] = [(c, 1), (c, (7, 1)), (c, (1, 7)), (c, (7, 1)), (192, (1, 7))]
    branches = [
        _branch(net, f"{name}.1x1", source, [(192, 1)]),
        _branch(net, f"{name}.7x7", source, [(c, 1), (c, (1, 7)), (192, (7, 1))]),
        _branch(net, f"{name}.7x7x2", source, double),
        _pooled(net, name, source, 192),
    ]
    return net.concat(f"{name}.concat", *branches)


def _block_e(net: Builder, name: str, source: str) -> str:
    single = _branch(net, f"{name}.1x1", source, [(320, 1)])
    split = _branch(net, f"{name}.3x3", source, [(384, 1)])
    double = _branch(net, f"{name}.3x3x2", source, [(448, 1), (384, 3)])
    halves = [
        _branch(net, f"{name}.{part}{way}", entry, [(384, kernel)])
        for part, entry in (("3x3", split), ("3x3x2", double))
        for way, kernel in ((".a", (1, 3)), (".b", (3, 1)))
    ]
    return net.concat(f"{name}.concat", single, *halves, _pooled(net, name, source, 192))


def _reduce(net: Builder, name: str, source: str, branches: list[list[Step]]) -> str:
    """Branches whose last convolution halves the map, beside a pool that does."""
    ends = [
        _branch(net, f"{name}.{i}", source, steps, halve=True) for i, steps in enumerate(branches)
    ]
    return net.concat(f"{name}.concat", *ends, net.pool(f"{name}.pool", 3, 2, after=source))


def _pooled(net: Builder, name: str, source: str, channels: int) -> str:
    pool = net.pool(f"{name}.pool", 3, 1, 1, average=True, after=source)
    return _branch(net, f"{name}.pool_conv", pool, [(channels, 1)])


def _branch(net: Builder, name: str, source: str, steps: list[Step], *, halve: bool = False) -> str:
    last = source
    for i, (channels, kernel) in enumerate(steps, 1):
        stride, padding = 1, _same(kernel)
        if halve and i == len(steps):
            stride, padding = 2, 0
        last = _conv(net, f"{name}.{i}", channels, kernel, stride, padding, last)
    return last


def _same(kernel: Sides) -> Sides:
    return (kernel[0] // 2, kernel[1] // 2) if isinstance(kernel, tuple) else kernel // 2


def _conv(
    net: Builder,
    name: str,
    channels: int,
    kernel: Sides,
    stride: int = 1,
    padding: Sides = 1,
    after: str | None = None,
) -> str:
    net.conv(name, channels, kernel, stride, padding, after=after)
    net.batch_norm(f"{name}.bn")
    return net.relu(f"{name}.relu")
