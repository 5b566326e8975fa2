"""The ten networks of HyPar (Song et al., HPCA 2019), sized as the paper's numbers imply.

Not the true networks: a convolution keeps its input's side whatever its stride
and padding (so that multiply-adds are counted on the input's resolution), the
pool behind it divides that side, and the next layer's input is as printed, even
where the two do not fit. See docs/explanation/partitions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from workloads.layer_types import Layer
from workloads.network import Network
from workloads.tensors import INPUT, Tensor


class _Conv(NamedTuple):
    side: int
    kernel: int
    channels: int
    pool: int = 1


def _network(
    name: str, channels: int, convs: Sequence[_Conv], features: Sequence[int], inputs: int
) -> Network:
    """Convolutions, then fully connected layers; ``inputs`` of the first of these."""
    layers: list[Layer] = []
    into = channels
    for i, conv in enumerate(convs, 1):
        layers += _conv(f"conv{i}", into, conv, layers[-1].name if layers else INPUT)
        into = conv.channels
    for i, out in enumerate(features, 1):
        last = layers[-1].name if layers else INPUT
        layers.append(Layer(f"fc{i}", "fc", (last,), Tensor(inputs), Tensor(out)))
        inputs = out
    about = f"{name} as HyPar (HPCA 2019) sizes it: published sizes, not the true network's"
    return Network(f"hypar-{name.lower()}", layers[0].input, tuple(layers), about)


def _conv(name: str, into: int, conv: _Conv, last: str) -> Iterator[Layer]:
    source = Tensor(into, conv.side, conv.side)
    output = Tensor(conv.channels, conv.side, conv.side)
    yield Layer(name, "conv", (last,), source, output, conv.kernel)
    if conv.pool > 1:
        pooled = Tensor(conv.channels, conv.side // conv.pool, conv.side // conv.pool)
        yield Layer(f"{name}.pool", "max_pool", (name,), output, pooled, conv.pool, conv.pool)


_BLOCKS = {
    "A": ((3,), (3,), (3, 3), (3, 3), (3, 3)),
    "B": ((3, 3), (3, 3), (3, 3), (3, 3), (3, 3)),
    "C": ((3, 3), (3, 3), (3, 3, 1), (3, 3, 1), (3, 3, 1)),
    "D": ((3, 3), (3, 3), (3, 3, 3), (3, 3, 3), (3, 3, 3)),
    "E": ((3, 3), (3, 3), (3, 3, 3, 3), (3, 3, 3, 3), (3, 3, 3, 3)),
}
"""Kernels of the convolutions of each block (Simonyan and Zisserman 2014, Table 1)."""


def _vgg(letter: str) -> list[_Conv]:
    return [
        _Conv(224 >> block, kernel, channels, 2 if i == len(kernels) - 1 else 1)
        for block, (channels, kernels) in enumerate(
            zip((64, 128, 256, 512, 512), _BLOCKS[letter], strict=True)
        )
        for i, kernel in enumerate(kernels)
    ]


_SCONV = (_Conv(28, 5, 20), _Conv(24, 5, 50, 2), _Conv(10, 5, 50), _Conv(6, 5, 10, 2))
_CIFAR_C = (_Conv(32, 5, 32, 2), _Conv(16, 5, 32, 2), _Conv(8, 5, 64, 2))
_ALEXNET = (
    *(_Conv(224, 11, 48, 2), _Conv(55, 5, 128, 2)),
    *(_Conv(27, 3, 192), _Conv(13, 3, 192), _Conv(13, 3, 128, 2)),
)
"""Half the true width; sides as in the AlexNet paper's figure, before pooling."""
_SIZES: dict[str, tuple[int, Sequence[_Conv], Sequence[int], int]] = {
    "SFC": (784, (), (8192, 8192, 8192, 10), 784),
    "SCONV": (1, _SCONV, (), 0),
    "Lenet-c": (1, (_Conv(28, 5, 20, 2), _Conv(12, 5, 50, 2)), (500, 10), 800),
    "Cifar-c": (3, _CIFAR_C, (64, 10), 1024),
    "AlexNet": (3, _ALEXNET, (2048, 2048, 1000), 4608),
    **{f"VGG-{letter}": (3, _vgg(letter), (4096, 4096, 1000), 25088) for letter in _BLOCKS},
}
"""Channels of the input, convolutions, features of fully connected layers, inputs of the first."""
HYPAR: dict[str, Callable[[], Network]] = {
    f"hypar-{name.lower()}": partial(_network, name, *sizes) for name, sizes in _SIZES.items()
}
"""The paper's networks in its order: a name and the function that builds it."""
