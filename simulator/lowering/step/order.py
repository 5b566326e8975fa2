"""The order in which the deployed model issues the steps of a training step.

Errors go to the producers while the gradient is computed. Gradients go as
soon as they are there (or, without overlap, at the end), those of consecutive
layers together until their bucket is full. So do, at the beginning, new weights whose
update was shared out.

Weights that are kept in parts are gathered unit by unit for each use (ZeRO 3, FSDP). A unit is a
block that the network repeats; other layers, one after the other, are one until
their weights fill a bucket. While one computes, the next one's weights are gathered, and no
more: two units are whole at most. Backward begins with the last one, which is kept (as FSDP
does not reshard it). Of units a, b, c, with g for gathering and s for scattering gradients:

    computes    F a   F b   F c   B c   B b     B a
    meanwhile   g b   g c         g b   s c g a s b    (before: g a; behind: s a)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from planners.order import Item, Kind, Phase
from simulator.cost.operators import Segment
from workloads import Graph, Network
from workloads.network import blocks


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


def recompute(
    graph: Graph, segments: Iterable[Segment], gathered: Callable[[int], Iterable[tuple[int, int]]]
) -> Iterator[Item]:
    """A forward pass again, with sums of products and the boundaries inside of each segment.

    Of what comes from outside, what a node has to have ``gathered``, by (edge, producer). Nodes of
    which only what rides on them runs again need no weights.
    """
    for _, nodes, products in segments:
        for v in nodes:
            for edge, producer in enumerate(graph[v].producers):
                inside = producer in nodes or (edge, producer) in gathered(v)
                if inside and v in products:
                    yield Item(Kind.BOUNDARY, Phase.RECOMPUTE, producer, v, edge)
            yield Item(Kind.COMPUTE, Phase.RECOMPUTE, v, bucket=(v,) if v in products else ())
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
    layers' are exchanged over the same groups; only such share a bucket. One that is not full
    goes when a layer of other groups comes, or, where the buckets are ``apart``, stays, and
    each sort of groups fills its own.
    """

    def __init__(
        self,
        graph: Graph,
        size: Callable[[int], float],
        alike: Callable[[int, int], bool],
        full_bytes: float,
        kind: Kind = Kind.SUMS,
        *,
        apart: bool = False,
    ) -> None:
        self._graph = graph
        self._gradients = kind is Kind.SUMS
        self._size = size
        self._alike = alike
        self._full_bytes = full_bytes
        self._apart = apart
        self._waiting: list[tuple[tuple[int, ...], float]] = []
        """Buckets that are not full: their layers and bytes."""
        self.exchanged: list[int] = []
        """Layers so far of which anything is."""

    def put(self, v: int) -> Iterator[Item]:
        """Add a layer's; whatever has to go now."""
        if self._gradients and self._graph[v].tied is not None:  # it joins that of its owner
            yield Item(Kind.SUMS, Phase.GRADIENT, v)
        size = self._size(v)
        if not size:
            return
        if self._waiting and not self._apart and not self._alike(self._waiting[0][0][0], v):
            yield from self.rest()
        self.exchanged.append(v)
        known = (k for k, (own, _) in enumerate(self._waiting) if self._alike(own[0], v))
        k = next(known, len(self._waiting))
        own, held = self._waiting.pop(k) if k < len(self._waiting) else ((), 0.0)
        if held + size >= self._full_bytes:
            yield self._gone((*own, v))
        else:
            self._waiting.insert(k, ((*own, v), held + size))

    def rest(self) -> Iterator[Item]:
        """What is left, full or not."""
        yield from (self._gone(layers) for layers, _ in self._waiting)
        self._waiting = []

    def _gone(self, layers: tuple[int, ...]) -> Item:
        of = (Kind.SUMS, Phase.GRADIENT) if self._gradients else (Kind.WEIGHTS, Phase.UPDATE)
        return Item(*of, layers[0], bucket=layers)


Unit = tuple[int, ...]


def units_of(
    network: Network, graph: Graph, size: Callable[[int], float], full_bytes: float
) -> tuple[Unit, ...]:
    """All nodes in units; ``size`` gives the bytes that are gathered of a node."""
    number = {name: k for k, names in enumerate(blocks(network)) for name in names}
    found: list[list[int]] = []
    of: int | None = None
    room = 0.0
    for v, node in enumerate(graph):
        block = number.get(node.name)
        if not found or block != of or (block is None and room <= 0):
            found.append([])
            of, room = block, full_bytes or 1.0
        found[-1].append(v)
        room -= size(v) if full_bytes else float(size(v) > 0)
    return tuple(map(tuple, found))


class FsdpUnits:
    """The steps that weights in parts need, around those of the nodes of their ``units``.

    Nodes that are exchanged by the same groups (``alike``) go together; those whose gradients
    have no ``size``, or that use no weights (``uses``, bytes), need no exchange. With
    ``prefetch`` a unit is gathered while the one before computes.
    """

    def __init__(
        self,
        graph: Graph,
        units: tuple[Unit, ...],
        size: Callable[[int], float],
        uses: Sequence[float],
        alike: Callable[[int, int], bool],
        *,
        prefetch: bool,
    ) -> None:
        self._graph = graph
        self._size = size
        self._uses = uses
        self._alike = alike
        self._prefetch = prefetch
        self.units = units
        self._ends = {unit[-1]: k for k, unit in enumerate(units)}
        self._begins = {unit[0]: k for k, unit in enumerate(units)}

    @cached_property
    def gathered(self) -> tuple[Unit, ...]:
        """Of each unit the nodes whose weights are gathered."""
        return tuple(tuple(v for v in unit if self._uses[v]) for unit in self.units)

    def forward(self) -> Iterator[Item]:
        """The forward pass."""
        if not self.units:
            yield from forward(self._graph)
        for k, unit in enumerate(self.units):
            if not self._prefetch or not k:
                yield from self._gather(k, Phase.FORWARD)
            if self._prefetch and k + 1 < len(self.units):
                behind = self.units[k - 1][-1] if k else -1
                yield from self._gather(k + 1, Phase.FORWARD, behind)
            yield from forward(self._graph, unit)

    def before(self, v: int) -> Iterator[Item]:
        """What goes before a node's backward: at the last of a unit."""
        k, last = self._ends.get(v, -1), len(self.units) - 1
        if k >= 0 and not self._prefetch and k < last:
            yield from self._gather(k, Phase.BACKWARD)
        elif k > 0 and self._prefetch:
            behind = self.units[k + 1][0] if k < last else v
            yield from self._gather(k - 1, Phase.BACKWARD, behind)

    def behind(self, v: int) -> Iterator[Item]:
        """What goes behind a node's backward: at the first of a unit its gradients."""
        if (k := self._begins.get(v, -1)) < 0:
            return
        unit = self.units[k][::-1]
        for u in unit:
            if self._graph[u].tied is not None:
                yield Item(Kind.SUMS, Phase.GRADIENT, u)
        for some in self._together(u for u in unit if self._size(u)):
            yield Item(Kind.SUMS, Phase.GRADIENT, some[0], bucket=some)

    def _gather(self, k: int, phase: Phase, behind: int = -1) -> Iterator[Item]:
        """Of the unit's weights, once the last product of node ``behind`` is done."""
        for some in self._together(self.gathered[k]):
            yield Item(Kind.WEIGHTS, phase, some[0], behind, bucket=some)

    def _together(self, nodes: Iterable[int]) -> list[Unit]:
        found: list[Unit] = []
        for v in nodes:
            alike = next((k for k, some in enumerate(found) if self._alike(some[0], v)), None)
            if alike is None:
                found.append((v,))
            else:
                found[alike] += (v,)
        return found
