"""Convolutions, fully connected layers and embeddings: products with a weight matrix.

Their weights may be block-circulant (CirCNN, Ding et al., MICRO 2017; E-RNN, Li et al., HPCA
2019). A matrix of n inputs and m outputs is n/b x m/b blocks, each a circulant of b numbers:
its product with a vector is one by elements between the spectra of both. So there are
n m / b weights, kept as spectra (b numbers each, as those of a real circulant), and for
each position

    n/b transforms of inputs, m/b back,   (b/2) log2 b butterflies each, of 10 operations
    (n/b) (m/b) (b/2 + 1) complex multiply-adds, of 8 operations

A butterfly is a complex product (6) and two sums (2 each), in radix 2, without making use of
inputs being real; of spectra the b/2 + 1 numbers that differ are multiplied. 512 to 512
with b = 64: 8 blocks a side, 16 transforms of 1920 operations, 64 x 33 products of 8: 47,616
operations in place of 524,288.
"""

from __future__ import annotations

from dataclasses import replace

from workloads.layer_types.base import (
    DIMENSIONS,
    Dimensions,
    Layer,
    LayerType,
    Operand,
    Role,
    Step,
    register,
)
from workloads.tensors import NetworkError, Tensor, sides

BUTTERFLY_OPERATIONS = 10
PRODUCT_OPERATIONS = 8


class Weighted(LayerType):
    """A product with a weight matrix, for each group and element of the kernel."""

    weighted = True
    sums_error = True
    shardable: tuple[str, ...] = DIMENSIONS
    keys: tuple[str, ...] = ("features",)

    def weights(self, layer: Layer) -> int:
        into, out = layer.input.channels, layer.output.channels
        return into * out * layer.kernel_area // layer.groups // layer.block

    def macs(self, layer: Layer) -> int:
        if layer.block > 1:
            return sum(self.spectral_macs(layer))
        return self.weights(layer) * (layer.input if layer.transposed else layer.output).area

    def dimensions(self, layer: Layer) -> Dimensions:
        work = layer.macs / replace(layer, block=1).macs if layer.block > 1 else 1.0
        return super().dimensions(layer)._replace(work=work)

    def backward(self, layer: Layer, *, needed: bool) -> tuple[Step, ...]:
        step = Step((Role.ERROR,), (Role.ERRORS,), products=1.0, weights=1.0)
        return (step,) if needed else ()

    def gradient(self, layer: Layer) -> tuple[Step, ...]:
        """A bias's is summed in passing, or by a kernel of its own (``transforms.summed``)."""
        weights = Step((Operand(0), Role.ERROR), products=1.0, gradients=(1.0, 2.0))
        summed = Step((Role.ERROR,), what="bias gradient", times=0)
        return (weights, summed) if layer.bias and layer.apart else (weights,)

    def spectral_macs(self, layer: Layer) -> tuple[int, int]:
        return self._spectral(layer, layer.input.channels, layer.output.channels, layer.groups)

    def _spectral(self, layer: Layer, ins: int, outs: int, groups: int) -> tuple[int, int]:
        """Multiply-adds, two operations each, with so many channels in all groups."""
        block, made = layer.block, layer.output.area
        transforms = ins // block * layer.input.area + outs // block * made
        pairs = groups * (ins // groups // block) * (outs // groups // block)
        products = pairs * (block // 2 + 1) * layer.kernel_area * made
        operations = transforms * transform_operations(block)
        return operations // 2, products * PRODUCT_OPERATIONS // 2


@register
class Convolution(Weighted):
    """A window that slides over a map; with as many groups as channels a depthwise one."""

    name = "conv"
    keys = ("features", "kernel", "stride", "padding", "groups")
    circulant = True

    def output(self, layer: Layer, features: int) -> Tensor:
        return Tensor(features, *slid(layer))


@register
class FullyConnected(Weighted):
    """A linear layer on every position of a sequence; a vector is a sequence of one.

    Of several ``groups`` each has features and weights of its own, as experts have.
    """

    name = "fc"
    keys = ("features", "groups")
    fully_connected = True
    circulant = True

    def output(self, layer: Layer, features: int) -> Tensor:
        if layer.input.width != 1:
            raise NetworkError(f"linear reads a sequence, got {layer.input}")
        return Tensor(features, layer.input.height)


@register
class Embedding(Weighted):
    """A gather from a table of ``vocabulary`` rows; a bag of rows makes fewer positions."""

    name = "embedding"
    keys = ("features", "vocabulary")
    gathers = True

    def output(self, layer: Layer, features: int) -> Tensor:
        return Tensor(features, layer.input.height)

    def problem(self, layer: Layer) -> str | None:
        few = layer.vocabulary < 1
        return "an embedding needs a vocabulary of at least one row" if few else None

    def dimensions(self, layer: Layer) -> Dimensions:
        return super().dimensions(layer)._replace(in_channels=layer.vocabulary)

    def weights(self, layer: Layer) -> int:
        return layer.vocabulary * layer.output.channels

    def macs(self, layer: Layer) -> int:
        return 0

    def forward(self, layer: Layer) -> tuple[Step, ...]:
        return (Step((Role.INPUTS,), (Role.OUTPUT,), rows=(1.0, 0.0)),)

    def backward(self, layer: Layer, *, needed: bool) -> tuple[Step, ...]:
        return ()

    def gradient(self, layer: Layer) -> tuple[Step, ...]:
        """Zeros for the whole table, then what is touched."""
        return (Step((Operand(0), Role.ERROR), gradients=(1.0, 0.0), rows=(0.0, 2.0)),)


def transform_operations(block: int) -> int:
    """Of one transform of a block, a power of two."""
    return BUTTERFLY_OPERATIONS * (block // 2) * (block.bit_length() - 1)


def block_problem(layer: Layer) -> str | None:
    """What is wrong with blocks: they are powers of two that divide each group's channels."""
    block, parts = layer.block, layer.directions * layer.groups
    channels = layer.input.channels // layer.groups, layer.output.channels // parts
    if block < 1 or block & (block - 1) or any(length % block for length in channels):
        return f"blocks of {block} are no powers of two, or do not divide its channels"
    if not layer.type.circulant or layer.transposed:
        return f"a {layer.kind} like this has no block-circulant weights"
    return None


def slid(layer: Layer) -> tuple[int, int]:
    """Height and width of what a window makes as it slides over a layer's input."""
    measures = zip(sides(layer.kernel), sides(layer.stride), sides(layer.padding), strict=True)
    shape = layer.input.height, layer.input.width
    height, width = (window(side, *measure) for side, measure in zip(shape, measures, strict=True))
    return height, width


def window(side: int, kernel: int, stride: int, padding: int) -> int:
    """Output side of a sliding window (floor division, as torch and Caffe's conv)."""
    if stride < 1:
        raise NetworkError(f"stride {stride}: at least 1")
    return (side + 2 * padding - kernel) // stride + 1
