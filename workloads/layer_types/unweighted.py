"""Operators without weights: on one tensor, by window, and those that tie paths together."""

from __future__ import annotations

from workloads.layer_types.base import STATISTICS, Kept, Layer, LayerType, Role, Step, register
from workloads.layer_types.linear import slid
from workloads.tensors import NetworkError, Tensor


@register
class ReLU(LayerType):
    """Rectified linear units."""

    name = "relu"
    keeps_maps = derived = passing = True
    fusible = True


@register
class Softmax(LayerType):
    """Softmax over channels; a ``causal`` one, of scores, over the positions so far."""

    name = "softmax"
    keeps_maps = derived = True


@register
class Flatten(LayerType):
    """A feature map as a vector."""

    name = "flatten"
    passing = True

    def output(self, layer: Layer, features: int) -> Tensor:
        return Tensor(layer.input.elements)

    def needs_values(self, layer: Layer) -> bool:
        return False

    def view(self, layer: Layer) -> bool:
        return True


class Pool(LayerType):
    """The largest, or the mean, of a window of each channel."""

    keys = ("kernel", "stride", "padding")
    keeps_maps = True

    def output(self, layer: Layer, features: int) -> Tensor:
        return Tensor(layer.input.channels, *slid(layer))


@register
class MaxPool(Pool):
    """The largest element of a window.

    What is ``apart`` keeps where each was, as PyTorch's indices (8 B), from forward to backward.
    """

    name = "max_pool"

    def forward(self, layer: Layer) -> tuple[Step, ...]:
        outputs = (Role.OUTPUT, _places(layer)) if layer.apart else (Role.OUTPUT,)
        return (Step((Role.INPUTS,), outputs),)

    def backward(self, layer: Layer, *, needed: bool) -> tuple[Step, ...]:
        if not layer.apart:
            return super().backward(layer, needed=needed)
        return (Step((Role.ERROR, _places(layer)), (Role.ERRORS,)),) if needed else ()

    def element_cycles(self, layer: Layer, *, forward: bool) -> float:
        return float(layer.kernel_area if forward else 1)


def _places(layer: Layer) -> Kept:
    return Kept("indices", layer.output.channels, 8.0)


@register
class AveragePool(Pool):
    """The mean of a window."""

    name = "avg_pool"


@register
class BatchNorm(LayerType):
    """Each channel less its mean, by its deviation, over the batch; then scaled and shifted.

    Its size ``untrained`` counts scales and shifts that it does not train, or that are another's.
    """

    name = "batch_norm"
    keys = ("untrained",)
    statistics = keeps_maps = passing = True

    def further_parameters(self, layer: Layer) -> int:
        return 2 * layer.output.channels - layer.size("untrained", 0)

    def forward(self, layer: Layer) -> tuple[Step, ...]:
        """A pass to sum up; what reads it normalises in passing."""
        return (Step((Role.INPUTS,), what=STATISTICS),)


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
