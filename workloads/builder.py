"""Write a network layer by layer; shapes follow from kernel, stride and padding."""

from __future__ import annotations

from typing import Any

from workloads.layer_types import Layer, layer_type
from workloads.network import Network
from workloads.tensors import INPUT, NetworkError, Sides, Tensor


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

    def layer(
        self, kind: str, name: str, *sources: str, after: str | None = None, **given: Any
    ) -> str:
        """A layer of any type by its name; ``given`` are its sizes (``LayerType.layer``)."""
        sources = sources or (after or self.last,)
        try:
            shapes = [self.shape(source) for source in sources]
            layer = layer_type(kind).layer(name, sources, shapes, **given)
        except NetworkError as error:
            raise NetworkError(f"{self.name}, {name}: {error}") from None
        self._layers.append(layer)
        self._shapes[name] = layer.output
        self.last = name
        return name

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
        sizes = {"features": channels, "kernel": kernel, "stride": stride, "padding": padding}
        return self.layer("conv", name, after=after, **sizes, groups=groups, bias=bias)

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
        return self.layer(kind, name, after=after, kernel=kernel, stride=stride, padding=padding)

    def fc(self, name: str, features: int, *, bias: bool = False, after: str | None = None) -> str:
        """Fully connected layer; its input must be a vector (see ``flatten``)."""
        shape = self._shapes.get(after or self.last)  # ``layer`` refuses what is not there
        if shape and shape.area != 1:
            raise NetworkError(f"{self.name}, {name}: fc reads a vector, got {shape}")
        return self.linear(name, features, bias=bias, after=after)

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
        return self.layer(
            "fc", name, after=after, features=features, bias=bias, groups=groups, shared=shared
        )

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
        sizes = {"features": features, "vocabulary": vocabulary}
        return self.layer("embedding", name, after=after, **sizes, shared=shared)

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
        sizes = {"features": directions * hidden, "directions": directions}
        return self.layer(kind, name, after=after, **sizes, bias=bias)

    def matmul(self, name: str, left: str, right: str, features: int, groups: int = 1) -> str:
        """Product of two computed tensors: in every group, positions x k times k x n.

        ``features`` are the output's over all groups (n times ``groups``).
        """
        return self.layer("matmul", name, left, right, features=features, groups=groups)

    def other(
        self, name: str, operator: str, output: Tensor | None = None, *sources: str, extra: int = 0
    ) -> str:
        """An unweighted operator without a kind of its own; its first input's shape by default."""
        return self.layer("other", name, *sources, operator=operator, output=output, extra=extra)

    def flatten(self, name: str, after: str | None = None) -> str:
        """Turn a feature map into a vector."""
        return self.layer("flatten", name, after=after)

    def batch_norm(self, name: str, after: str | None = None) -> str:
        """Batch normalisation."""
        return self.layer("batch_norm", name, after=after)

    def relu(self, name: str, after: str | None = None) -> str:
        """Rectified linear unit."""
        return self.layer("relu", name, after=after)

    def softmax(self, name: str, after: str | None = None, *, causal: bool = False) -> str:
        """Softmax over channels; ``causal``, of scores, over the positions so far."""
        return self.layer("softmax", name, after=after, causal=causal)

    def add(self, name: str, *sources: str) -> str:
        """Element-wise sum of layers of one shape."""
        return self.layer("add", name, *sources)

    def mul(self, name: str, *sources: str) -> str:
        """Element-wise product of layers of one shape (a gate)."""
        return self.layer("mul", name, *sources)

    def concat(self, name: str, *sources: str) -> str:
        """Channels of several layers, one behind the other."""
        return self.layer("concat", name, *sources)

    def shape(self, name: str) -> Tensor:
        """What the layer ``name`` writes; raises NetworkError where there is none."""
        if name not in self._shapes:
            raise NetworkError(f"no layer {name!r} so far; the last one is {self.last!r}")
        return self._shapes[name]

    def build(self, description: str = "") -> Network:
        """The finished network."""
        return Network(self.name, self.input, tuple(self._layers), description)
