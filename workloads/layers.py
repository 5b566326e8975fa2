"""Layers and networks: what is trained, with the exact shape of every tensor.

A network is a directed acyclic graph of layers. Weighted layers (``conv``,
``fc``) are what planners partition; the other kinds are kept with their
shapes because they move memory and because joins tie paths together.
Shapes are those of one sample; the batch size belongs to the training step.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

WEIGHTED = frozenset({"conv", "fc"})
JOINS = frozenset({"add"})
UNARY = frozenset({"max_pool", "avg_pool", "batch_norm", "relu", "softmax", "flatten"})
KINDS = WEIGHTED | JOINS | UNARY

INPUT = "input"
"""The name by which a network's layers refer to its input."""


class NetworkError(ValueError):
    """A network, or a file that describes one, is malformed."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Shape of one sample's feature map; a vector has height and width 1."""

    channels: int
    height: int = 1
    width: int = 1

    @property
    def area(self) -> int:
        """Elements of one channel."""
        return self.height * self.width

    @property
    def elements(self) -> int:
        """Elements of one sample."""
        return self.channels * self.area

    def __str__(self) -> str:
        return f"{self.channels}x{self.height}x{self.width}"


@dataclass(frozen=True, slots=True)
class Layer:
    """One operator: its kind, where its inputs come from and its exact shapes.

    ``input`` is the shape of each of its inputs (a join's inputs are alike).
    ``kernel`` is the window's side for ``conv`` and the pools, else 1.
    """

    name: str
    kind: str
    inputs: tuple[str, ...]
    input: Tensor
    output: Tensor
    kernel: int = 1
    stride: int = 1
    padding: int = 0
    bias: bool = False

    @property
    def weighted(self) -> bool:
        """Whether the layer has a weight matrix that planners partition."""
        return self.kind in WEIGHTED

    @property
    def weights(self) -> int:
        """A(W): elements of the weight tensor, without biases and batch norm."""
        if not self.weighted:
            return 0
        return self.input.channels * self.output.channels * self.kernel**2

    @property
    def parameters(self) -> int:
        """All trained parameters: weights, bias, and batch norm's scale and shift."""
        if self.kind == "batch_norm":
            return 2 * self.output.channels
        return self.weights + (self.output.channels if self.bias else 0)


@dataclass(frozen=True, slots=True)
class Network:
    """Layers in topological order; ``inputs`` name earlier layers or ``"input"``.

    Raises NetworkError when a name repeats, an input is unknown or comes
    later, a kind is unknown, or an arity is wrong.
    """

    name: str
    input: Tensor
    layers: tuple[Layer, ...]
    description: str = ""

    def __post_init__(self) -> None:
        seen = {INPUT}
        for layer in self.layers:
            _check(self.name, layer, seen)
            seen.add(layer.name)
        if not any(layer.weighted for layer in self.layers):
            raise NetworkError(f"network {self.name!r}: no weighted layer (conv or fc)")

    @property
    def weights(self) -> int:
        """Elements of all weight tensors, without biases and batch norm."""
        return sum(layer.weights for layer in self.layers)

    @property
    def parameters(self) -> int:
        """All trained parameters, biases and batch norm included."""
        return sum(layer.parameters for layer in self.layers)


def _check(network: str, layer: Layer, seen: Iterable[str]) -> None:
    where = f"network {network!r}, layer {layer.name!r}"
    if layer.name in seen:
        raise NetworkError(f"{where}: the name is used twice")
    if layer.kind not in KINDS:
        raise NetworkError(f"{where}: unknown kind {layer.kind!r}; one of {sorted(KINDS)}")
    for source in layer.inputs:
        if source not in seen:
            raise NetworkError(f"{where}: input {source!r} is not an earlier layer")
    arity = len(layer.inputs)
    if arity < 1 or (layer.kind not in JOINS and arity != 1):
        raise NetworkError(f"{where}: a {layer.kind} takes one input, got {arity}")
    sizes = (layer.input.elements, layer.output.elements, layer.kernel, layer.stride)
    if min(sizes) < 1 or layer.padding < 0:
        raise NetworkError(f"{where}: shapes, kernel and stride must be positive")
    if math.prod(sizes) > 1 << 62:
        raise NetworkError(f"{where}: shapes are absurdly large")
