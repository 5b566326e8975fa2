"""Operators that tie paths together: sums, products by element, concatenation."""

from __future__ import annotations

from workloads.layer_types.base import Layer, LayerType, Role, Step, register
from workloads.tensors import NetworkError, Tensor


class Join(LayerType):
    """A join; a sum or concatenation needs no values backward."""

    join = True
    inputs = None
    reads = "one input"

    def output(self, layer: Layer, features: int) -> Tensor:
        shapes = set(layer.operands)
        if len(shapes) != 1:
            raise NetworkError(f"cannot {self.name} shapes {sorted(map(str, shapes))}")
        return layer.input

    def backward(self, layer: Layer, *, needed: bool) -> tuple[Step, ...]:
        return (Step((Role.ERROR,), (Role.ERRORS,)),) if needed else ()


@register
class Add(Join):
    """The sum by element of layers of one shape."""

    name = "add"
    sums = True


@register
class Multiply(Join):
    """The product by element of layers of one shape (a gate)."""

    name = "mul"

    def backward(self, layer: Layer, *, needed: bool) -> tuple[Step, ...]:
        return LayerType.backward(self, layer, needed=needed)


@register
class Concatenate(Join):
    """Channels of several layers, one behind the other."""

    name = "concat"

    def output(self, layer: Layer, features: int) -> Tensor:
        first, *others = layer.operands
        if any((o.height, o.width) != (first.height, first.width) for o in others):
            shapes = [str(first), *map(str, others)]
            raise NetworkError(f"cannot concatenate shapes {shapes}")
        channels = first.channels + sum(other.channels for other in others)
        return Tensor(channels, first.height, first.width)
