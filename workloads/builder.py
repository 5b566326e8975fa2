"""Write a network layer by layer; shapes follow from kernel, stride and padding."""

from __future__ import annotations

from dataclasses import replace

from workloads.kinds import INPUT, NetworkError, Sides, Tensor, sides
from workloads.layers import Layer, Network


def window(side: int, kernel: int, stride: int, padding: int) -> int:
    """Output side of a sliding window (floor division, as torch and Caffe's conv)."""
    return (side + 2 * padding - kernel) // stride + 1


class Builder:
    """Collects layers; every method appends one and returns its name.

    ``after`` names the layer to read from; without it the ``last`` one added.
    """

    def __init__(self, name: str, channels: int, height: int, width: int = 1) -> None:
        self.name = name
        self.input = Tensor(channels, height, width)
        self._layers: list[Layer] = []
        self._shapes = {INPUT: self.input}
        self.last = INPUT

    def conv(
        self,
        name: str,
        channels: int,
        kernel: Sides,
        stride: Sides = 1,
        padding: Sides = 0,
        *,
        groups: int = 1,
        bias: bool = False,
        after: str | None = None,
    ) -> str:
        """Convolution; with as many ``groups`` as channels it is a depthwise one."""
        layer = self._window("conv", name, channels, kernel, stride, padding, after)
        return self._add(replace(layer, groups=groups, bias=bias), after)

    def pool(
        self,
        name: str,
        kernel: Sides,
        stride: Sides,
        padding: Sides = 0,
        *,
        average: bool = False,
        after: str | None = None,
    ) -> str:
        """Max (or average) pooling."""
        kind = "avg_pool" if average else "max_pool"
        return self._add(self._window(kind, name, None, kernel, stride, padding, after), after)

    def fc(self, name: str, features: int, *, bias: bool = False, after: str | None = None) -> str:
        """Fully connected layer; its input must be a vector (see ``flatten``)."""
        shape = self._shapes[after or self.last]
        if shape.area != 1:
            raise NetworkError(f"{self.name}, {name}: fc reads a vector, got {shape}")
        return self._add(Layer(name, "fc", (), shape, Tensor(features), bias=bias), after)

    def linear(
        self,
        name: str,
        features: int,
        *,
        bias: bool = False,
        groups: int = 1,
        shared: str = "",
        after: str | None = None,
    ) -> str:
        """Linear layer on every position of a sequence (a vector is a sequence of one).

        Of several ``groups`` each has features and weights of its own, as experts have.
        """
        shape = self._shapes[after or self.last]
        if shape.width != 1:
            raise NetworkError(f"{self.name}, {name}: linear reads a sequence, got {shape}")
        output = Tensor(features, shape.height)
        layer = Layer(name, "fc", (), shape, output, bias=bias, groups=groups, shared=shared)
        return self._add(layer, after)

    def embedding(
        self,
        name: str,
        vocabulary: int,
        features: int,
        *,
        shared: str = "",
        after: str | None = None,
    ) -> str:
        """A row of a table for every token id it reads."""
        shape = self._shapes[after or self.last]
        output = Tensor(features, shape.height)
        layer = Layer(name, "embedding", (), shape, output, vocabulary=vocabulary, shared=shared)
        return self._add(layer, after)

    def cell(
        self,
        kind: str,
        name: str,
        hidden: int,
        *,
        directions: int = 1,
        bias: bool = False,
        after: str | None = None,
    ) -> str:
        """Recurrent cell (``lstm`` or ``gru``) run along a sequence; all states are its output."""
        shape = self._shapes[after or self.last]
        output = Tensor(directions * hidden, shape.height)
        return self._add(
            Layer(name, kind, (), shape, output, bias=bias, directions=directions), after
        )

    def matmul(self, name: str, left: str, right: str, features: int, groups: int = 1) -> str:
        """Product of two computed tensors: in every group, positions x k times k x n.

        ``features`` are the output's over all groups (n times ``groups``).
        """
        first, second = self._shapes[left], self._shapes[right]
        output = Tensor(features, first.height, first.width)
        return self._append(
            Layer(name, "matmul", (left, right), first, output, groups=groups, others=(second,))
        )

    def other(
        self,
        name: str,
        operator: str,
        output: Tensor | None = None,
        *sources: str,
        extra: int = 0,
    ) -> str:
        """An unweighted operator without a kind of its own; its first input's shape by default."""
        sources = sources or (self.last,)
        first, *others = [self._shapes[source] for source in sources]
        return self._append(
            Layer(
                name,
                "other",
                sources,
                first,
                output or first,
                others=tuple(others),
                operator=operator,
                extra=extra,
            )
        )

    def flatten(self, name: str, after: str | None = None) -> str:
        """Turn a feature map into a vector."""
        shape = self._shapes[after or self.last]
        return self._add(Layer(name, "flatten", (), shape, Tensor(shape.elements)), after)

    def batch_norm(self, name: str, after: str | None = None) -> str:
        """Batch normalisation."""
        return self._same("batch_norm", name, after)

    def relu(self, name: str, after: str | None = None) -> str:
        """Rectified linear unit."""
        return self._same("relu", name, after)

    def softmax(self, name: str, after: str | None = None, *, causal: bool = False) -> str:
        """Softmax over channels; ``causal``, of scores, over the positions so far."""
        shape = self._shapes[after or self.last]
        return self._add(Layer(name, "softmax", (), shape, shape, causal=causal), after)

    def add(self, name: str, *sources: str) -> str:
        """Element-wise sum of layers of one shape."""
        return self._alike("add", name, sources)

    def mul(self, name: str, *sources: str) -> str:
        """Element-wise product of layers of one shape (a gate)."""
        return self._alike("mul", name, sources)

    def concat(self, name: str, *sources: str) -> str:
        """Channels of several layers, one behind the other."""
        first, *others = [self._shapes[source] for source in sources]
        if any((o.height, o.width) != (first.height, first.width) for o in others):
            shapes = [str(first), *map(str, others)]
            raise NetworkError(f"{self.name}, {name}: cannot concatenate shapes {shapes}")
        channels = first.channels + sum(other.channels for other in others)
        output = Tensor(channels, first.height, first.width)
        return self._append(Layer(name, "concat", sources, first, output, others=tuple(others)))

    def shape(self, name: str) -> Tensor:
        """What the layer ``name`` writes."""
        return self._shapes[name]

    def build(self, description: str = "") -> Network:
        """The finished network."""
        return Network(self.name, self.input, tuple(self._layers), description)

    def _window(
        self,
        kind: str,
        name: str,
        channels: int | None,
        kernel: Sides,
        stride: Sides,
        padding: Sides,
        after: str | None,
    ) -> Layer:
        shape = self._shapes[after or self.last]
        measures = zip(sides(kernel), sides(stride), sides(padding), strict=True)
        height, width = (
            window(side, *measure)
            for side, measure in zip((shape.height, shape.width), measures, strict=True)
        )
        output = Tensor(shape.channels if channels is None else channels, height, width)
        return Layer(name, kind, (), shape, output, kernel, stride, padding)

    def _alike(self, kind: str, name: str, sources: tuple[str, ...]) -> str:
        shapes = {self._shapes[source] for source in sources}
        if len(shapes) != 1:
            listed = sorted(map(str, shapes))
            raise NetworkError(f"{self.name}, {name}: cannot {kind} shapes {listed}")
        shape = shapes.pop()
        return self._append(Layer(name, kind, sources, shape, shape))

    def _same(self, kind: str, name: str, after: str | None) -> str:
        shape = self._shapes[after or self.last]
        return self._add(Layer(name, kind, (), shape, shape), after)

    def _add(self, layer: Layer, after: str | None) -> str:
        return self._append(replace(layer, inputs=(after or self.last,)))

    def _append(self, layer: Layer) -> str:
        self._layers.append(layer)
        self._shapes[layer.name] = layer.output
        self.last = layer.name
        return layer.name
