"""Embeddings: a row of a table for every token id."""

from __future__ import annotations

from workloads.layer_types.base import Dimensions, Layer, Operand, Role, Step, register
from workloads.layer_types.linear import Weighted
from workloads.tensors import Tensor


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
