"""Write a network layer by layer; shapes follow from kernel, stride and padding."""

from __future__ import annotations

from dataclasses import replace

from workloads.layers import INPUT, Layer, Network, NetworkError, Tensor


def window(side: int, kernel: int, stride: int, padding: int) -> int:
    """Output side of a sliding window (floor division, as torch and Caffe's conv)."""
    return (side + 2 * padding - kernel) // stride + 1


class Builder:
    """Collects layers; every method appends one and returns its name.

    ``after`` names the layer to read from; without it the last one added.
    """

    def __init__(self, name: str, channels: int, height: int, width: int) -> None:
        self.name = name
        self.input = Tensor(channels, height, width)
        self._layers: list[Layer] = []
        self._shapes = {INPUT: self.input}
        self._last = INPUT

    def conv(
        self,
        name: str,
        channels: int,
        kernel: int,
        stride: int = 1,
        padding: int = 0,
        *,
        bias: bool = False,
        after: str | None = None,
    ) -> str:
        """Convolution with square kernel."""
        return self._window("conv", name, channels, kernel, stride, padding, bias, after)

    def pool(
        self,
        name: str,
        kernel: int,
        stride: int,
        padding: int = 0,
        *,
        average: bool = False,
        after: str | None = None,
    ) -> str:
        """Max (or average) pooling with square window."""
        kind = "avg_pool" if average else "max_pool"
        return self._window(kind, name, None, kernel, stride, padding, False, after)

    def fc(self, name: str, features: int, *, bias: bool = False, after: str | None = None) -> str:
        """Fully connected layer; its input must be a vector (see ``flatten``)."""
        shape = self._shapes[after or self._last]
        if shape.area != 1:
            raise NetworkError(f"{self.name}, {name}: fc reads a vector, got {shape}")
        return self._add(Layer(name, "fc", (), shape, Tensor(features), bias=bias), after)

    def flatten(self, name: str, after: str | None = None) -> str:
        """Turn a feature map into a vector."""
        shape = self._shapes[after or self._last]
        return self._add(Layer(name, "flatten", (), shape, Tensor(shape.elements)), after)

    def batch_norm(self, name: str, after: str | None = None) -> str:
        """Batch normalisation."""
        return self._same("batch_norm", name, after)

    def relu(self, name: str, after: str | None = None) -> str:
        """Rectified linear unit."""
        return self._same("relu", name, after)

    def softmax(self, name: str, after: str | None = None) -> str:
        """Softmax over channels."""
        return self._same("softmax", name, after)

    def add(self, name: str, *sources: str) -> str:
        """Element-wise sum of layers of one shape."""
        shapes = {self._shapes[source] for source in sources}
        if len(shapes) != 1:
            raise NetworkError(f"{self.name}, {name}: cannot add shapes {sorted(map(str, shapes))}")
        shape = shapes.pop()
        return self._append(Layer(name, "add", sources, shape, shape))

    def build(self, description: str = "") -> Network:
        """The finished network."""
        return Network(self.name, self.input, tuple(self._layers), description)

    def _window(
        self,
        kind: str,
        name: str,
        channels: int | None,
        kernel: int,
        stride: int,
        padding: int,
        bias: bool,
        after: str | None,
    ) -> str:
        shape = self._shapes[after or self._last]
        output = Tensor(
            shape.channels if channels is None else channels,
            window(shape.height, kernel, stride, padding),
            window(shape.width, kernel, stride, padding),
        )
        return self._add(Layer(name, kind, (), shape, output, kernel, stride, padding, bias), after)

    def _same(self, kind: str, name: str, after: str | None) -> str:
        shape = self._shapes[after or self._last]
        return self._add(Layer(name, kind, (), shape, shape), after)

    def _add(self, layer: Layer, after: str | None) -> str:
        return self._append(replace(layer, inputs=(after or self._last,)))

    def _append(self, layer: Layer) -> str:
        self._layers.append(layer)
        self._shapes[layer.name] = layer.output
        self._last = layer.name
        return layer.name
