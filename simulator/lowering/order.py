"""The order in which the deployed model issues the steps of a training step.

Errors go to the producers while the gradient is computed. Gradients go as
soon as they are there (or, without overlap, at the end), those of consecutive
layers together until their bucket is full. So do, at the beginning, new weights whose
update was shared out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from planners.order import Item, Kind, Phase
from simulator.cost.operators import Segment
from workloads import Graph


def forward(graph: Graph, nodes: Iterable[int] | None = None) -> Iterator[Item]:
    """Boundaries, products and their sums, layer by layer; of all layers, or these."""
    for v in range(len(graph)) if nodes is None else nodes:
        node = graph[v]
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
    if node.operand:
        yield Item(Kind.COMPUTE, Phase.GRADIENT, v)
        yield Item(Kind.SUMS, Phase.GRADIENT, v)
    for edge, producer in enumerate(node.producers):
        yield Item(Kind.BOUNDARY, Phase.BACKWARD, producer, v, edge)
    if not node.join and not node.operand:
        yield Item(Kind.COMPUTE, Phase.GRADIENT, v)


def recompute(graph: Graph, segments: Iterable[Segment]) -> Iterator[Item]:
    """A forward pass again, with sums of products and the boundaries inside of each segment."""
    for _, nodes, products in segments:
        for v in nodes:
            for edge, producer in enumerate(graph[v].producers):
                if producer in nodes and v in products:
                    yield Item(Kind.BOUNDARY, Phase.RECOMPUTE, producer, v, edge)
            yield Item(Kind.COMPUTE, Phase.RECOMPUTE, v)
            if v in products and not graph[v].join:
                yield Item(Kind.SUMS, Phase.RECOMPUTE, v)


def gathered(v: int, edges: Iterable[tuple[int, int]]) -> Iterator[Item]:
    """What a node reads, by (edge, producer), gathered again for its gradient."""
    for edge, producer in edges:
        yield Item(Kind.BOUNDARY, Phase.RECOMPUTE, producer, v, edge, (v,))


def update(graph: Graph, shared: frozenset[int], exchanged: Sequence[int] | None) -> Iterator[Item]:
    """Every layer's weights, then those that are used twice on their way to the other use.

    In the layers' order (``exchanged`` None), as an optimizer does that is called when all
    gradients are there; or as they arrive: first of what is not exchanged, then of what is, in
    that order. Where updates are ``shared`` out, other uses get new weights later.
    """
    layers = range(len(graph))
    ordered: Iterable[int] = layers
    if exchanged is not None:
        ordered = (*(v for v in reversed(layers) if v not in exchanged), *exchanged)
    for v in ordered:
        yield Item(Kind.COMPUTE, Phase.UPDATE, v)
    yield from retied(graph, frozenset(layers) - shared)


def retied(graph: Graph, owners: frozenset[int]) -> Iterator[Item]:
    """New weights of some ``owners``, on their way to the layers that use them, too."""
    for v, node in enumerate(graph):
        if node.tied in owners:
            yield Item(Kind.BOUNDARY, Phase.UPDATE, node.tied, v)


class Buckets:
    """Gradients that wait to be exchanged together, or new weights (of ``kind`` WEIGHTS).

    ``size`` gives the bytes that a core exchanges of a layer's, which
    fill the bucket (none: it needs no exchange), ``alike`` says whether two
    layers' are exchanged over the same groups; only such share a bucket.
    """

    def __init__(
        self,
        graph: Graph,
        size: Callable[[int], float],
        alike: Callable[[int, int], bool],
        full_bytes: float,
        kind: Kind = Kind.SUMS,
    ) -> None:
        self._graph = graph
        self._gradients = kind is Kind.SUMS
        self._size = size
        self._alike = alike
        self._full_bytes = full_bytes
        self._layers: tuple[int, ...] = ()
        self._bytes = 0.0
        self.exchanged: list[int] = []
        """Layers so far of which anything is."""

    def put(self, v: int) -> Iterator[Item]:
        """Add a layer's; whatever has to go now."""
        if self._gradients and self._graph[v].tied is not None:  # it joins that of its owner
            yield Item(Kind.SUMS, Phase.GRADIENT, v)
        size = self._size(v)
        if not size:
            return
        if self._layers and not self._alike(self._layers[0], v):
            yield from self.rest()
        self._layers = (*self._layers, v)
        self.exchanged.append(v)
        self._bytes += size
        if self._bytes >= self._full_bytes:
            yield from self.rest()

    def rest(self) -> Iterator[Item]:
        """What is left, full or not."""
        if self._layers:
            of = (Kind.SUMS, Phase.GRADIENT) if self._gradients else (Kind.WEIGHTS, Phase.UPDATE)
            yield Item(*of, self._layers[0], bucket=self._layers)
        self._layers, self._bytes = (), 0.0
