"""The order in which the deployed model issues the steps of a training step.

Errors go to the producers while the gradient is computed. Gradients go as
soon as they are there (or, without overlap, at the end), those of consecutive
layers together until their bucket is full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from planners.order import Item, Kind, Phase
from workloads import Graph


def forward(graph: Graph) -> Iterator[Item]:
    """Boundaries, products and their sums, layer by layer."""
    for v, node in enumerate(graph):
        for edge, producer in enumerate(node.producers):
            yield Item(Kind.BOUNDARY, Phase.FORWARD, producer, v, edge)
        yield Item(Kind.COMPUTE, Phase.FORWARD, v)
        if not node.join:
            yield Item(Kind.SUMS, Phase.FORWARD, v)


def backward(graph: Graph, v: int) -> Iterator[Item]:
    """One layer's errors first, on their way to the producers while its gradient is computed.

    A matmul's "gradient" is the error of its second operand, and goes with the others.
    """
    node = graph[v]
    yield Item(Kind.COMPUTE, Phase.BACKWARD, v)
    if not node.join:
        yield Item(Kind.SUMS, Phase.BACKWARD, v)
    if node.kind == "matmul":
        yield Item(Kind.COMPUTE, Phase.GRADIENT, v)
    for edge, producer in enumerate(node.producers):
        yield Item(Kind.BOUNDARY, Phase.BACKWARD, producer, v, edge)
    if not node.join and node.kind != "matmul":
        yield Item(Kind.COMPUTE, Phase.GRADIENT, v)


def update(graph: Graph) -> Iterator[Item]:
    """Every layer's weights, then those that are used twice on their way to the other use."""
    for v in range(len(graph)):
        yield Item(Kind.COMPUTE, Phase.UPDATE, v)
    for v, node in enumerate(graph):
        if node.tied is not None:
            yield Item(Kind.BOUNDARY, Phase.UPDATE, node.tied, v)


class Buckets:
    """Gradients that wait to be exchanged together.

    ``size`` gives the bytes that a core exchanges of a layer's gradient, which
    fill the bucket (none: it needs no exchange), ``alike`` says whether two
    layers' are summed over the same groups; only such share a bucket.
    """

    def __init__(
        self,
        graph: Graph,
        size: Callable[[int], float],
        alike: Callable[[int, int], bool],
        full_bytes: float,
    ) -> None:
        self._graph = graph
        self._size = size
        self._alike = alike
        self._full_bytes = full_bytes
        self._layers: tuple[int, ...] = ()
        self._bytes = 0.0

    def put(self, v: int) -> Iterator[Item]:
        """Add a layer's gradient; whatever has to go now."""
        if self._graph[v].tied is not None:  # it joins that of the weight's owner
            yield Item(Kind.SUMS, Phase.GRADIENT, v)
        size = self._size(v)
        if not size:
            return
        if self._layers and not self._alike(self._layers[0], v):
            yield from self.rest()
        self._layers = (*self._layers, v)
        self._bytes += size
        if self._bytes >= self._full_bytes:
            yield from self.rest()

    def rest(self) -> Iterator[Item]:
        """What is left, full or not."""
        if self._layers:
            first = self._layers[0]
            yield Item(Kind.SUMS, Phase.GRADIENT, first, bucket=self._layers)
        self._layers, self._bytes = (), 0.0
