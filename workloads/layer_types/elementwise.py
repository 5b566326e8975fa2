"""Operators on one tensor that keep its elements: activations, softmax, flattening."""

from __future__ import annotations

from workloads.layer_types.base import Layer, LayerType, Role, Step, register
from workloads.tensors import Tensor


def by_output(*, needed: bool) -> tuple[Step, ...]:
    """Backward of what is derived from its result, so that its input is not kept for it."""
    return (Step((Role.ERROR, Role.OUTPUT), (Role.ERRORS,)),) if needed else ()


@register
class ReLU(LayerType):
    """Rectified linear units."""

    name = "relu"
    keeps_maps = True
    fusible = True

    def backward(self, layer: Layer, *, needed: bool) -> tuple[Step, ...]:
        return by_output(needed=needed)

    def in_passing(self, layer: Layer) -> bool:
        return not layer.apart


@register
class Softmax(LayerType):
    """Softmax over channels; a ``causal`` one, of scores, over the positions so far."""

    name = "softmax"
    keeps_maps = True

    def backward(self, layer: Layer, *, needed: bool) -> tuple[Step, ...]:
        return by_output(needed=needed)


@register
class Flatten(LayerType):
    """A feature map as a vector."""

    name = "flatten"

    def output(self, layer: Layer, features: int) -> Tensor:
        return Tensor(layer.input.elements)

    def in_passing(self, layer: Layer) -> bool:
        return not layer.apart

    def needs_values(self, layer: Layer) -> bool:
        return False

    def view(self, layer: Layer) -> bool:
        return True
