"""The published training step as a sequence every accelerator follows.

Forward through the layers, then backward: each product is computed, partial
sums are completed right behind it, and tensors are re-laid at each boundary
right before the product that needs them. Nothing overlaps. An exchange step
happens at every level, the top split first; since the order is the same
everywhere, no two groups wait for each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from planners.partition import (
    II,
    III,
    SAME_WEIGHTS,
    Communication,
    Partition,
    Sizes,
    boundary,
    is_operand,
    partial_sums,
    producer_type,
    tied_sums,
)
from planners.plan.updates import Kept, Updates, sharded
from workloads import Graph
from workloads.cache import once_for_each


class Phase(StrEnum):
    """The three products of a layer, in the order in which they run, and the optimizer's update.

    What of a forward pass is computed again before backward is a phase of its own.
    """

    FORWARD = "forward"
    BACKWARD = "backward"
    GRADIENT = "gradient"
    UPDATE = "update"
    RECOMPUTE = "recompute"

    @property
    def computes_features(self) -> bool:
        """Whether features are computed, for the first time or again."""
        return self in (Phase.FORWARD, Phase.RECOMPUTE)


class Kind(StrEnum):
    """What a step does: a product (and its use of HBM), its partial sums, or a boundary.

    A send is a boundary between stages; weights are gathered that were updated in parts.
    """

    COMPUTE = "compute"
    SUMS = "partial sums"
    BOUNDARY = "boundary"
    MEMORY = "memory"
    SEND = "send"
    WEIGHTS = "weights"


SUMMED_IN = {
    Phase.FORWARD: (II,),
    Phase.BACKWARD: (III,),
    Phase.GRADIENT: SAME_WEIGHTS,
    Phase.RECOMPUTE: (II,),
}
"""The types whose partial sums arise in each phase (AccPar; positions sum as samples do)."""


@dataclass(frozen=True, slots=True)
class Item:
    """One item of a training step: a node computes, or receives.

    A boundary is edge ``edge`` of ``node`` into ``consumer``. A ``bucket`` is of
    layers, ``node`` the first, whose gradients are summed, or weights gathered, together. Of a node
    that computes again it is the node itself where its product runs, which reads its weights, and
    empty where only what rides on the node runs.
    """

    kind: Kind
    phase: Phase
    node: int
    consumer: int = -1
    edge: int = 0
    bucket: tuple[int, ...] = ()


@once_for_each
def published_order(graph: Graph) -> tuple[Item, ...]:
    """The whole step in order."""
    return (*_forward(graph), *_backward(graph))


def shared_out(graph: Graph, updates: Updates) -> frozenset[int]:
    """The nodes with weights of their own whose update is shared out."""
    return frozenset(v for v in sharded(updates) if graph[v].tied is None)


def lowest_first(item: Item, shared: frozenset[int]) -> bool:
    """Whether the lowest split exchanges first: gradients that are summed in parts.

    Each split above it then sums its sums.
    """
    return item.kind is Kind.SUMS and item.phase is Phase.GRADIENT and item.node in shared


def gathered_order(shared: frozenset[int]) -> Iterator[Item]:
    """What comes before: the new weights of the last step's update, where it was shared out."""
    for v in sorted(shared):
        yield Item(Kind.WEIGHTS, Phase.UPDATE, v)


def _forward(graph: Graph) -> Iterator[Item]:
    for v, node in enumerate(graph):
        for edge, producer in enumerate(node.producers):
            yield Item(Kind.BOUNDARY, Phase.FORWARD, producer, v, edge)
        if not node.join:
            yield Item(Kind.COMPUTE, Phase.FORWARD, v)
            yield Item(Kind.SUMS, Phase.FORWARD, v)


def consumers(graph: Graph) -> list[list[tuple[int, int]]]:
    """Per node, those that read it and by which of their edges."""
    found: list[list[tuple[int, int]]] = [[] for _ in graph]
    for v, node in enumerate(graph):
        for edge, producer in enumerate(node.producers):
            found[producer].append((v, edge))
    return found


def _backward(graph: Graph) -> Iterator[Item]:
    readers = consumers(graph)
    for v, node in reversed(list(enumerate(graph))):
        for consumer, edge in readers[v]:
            yield Item(Kind.BOUNDARY, Phase.BACKWARD, v, consumer, edge)
        if not node.join:
            for phase in (Phase.BACKWARD, Phase.GRADIENT):
                yield Item(Kind.COMPUTE, phase, v)
                yield Item(Kind.SUMS, phase, v)


def received(
    item: Item,
    graph: Graph,
    partitions: Sequence[Partition],
    size: Sequence[Sizes],
    table: Communication = Communication.PRINTED,
    kept: Sequence[Kept | None] = (),
    *,
    unlike_shares: bool = False,
) -> tuple[float, float]:
    """Elements each side of a split receives in an exchange step.

    The paper moves nothing between layers of one layout whose shares are unlike; with
    ``unlike_shares`` what then changes hands counts, too.

    ``kept`` has the nodes whose update this split shares out, and of their weights what
    each side updates: all that it receives of their gradients, and what it does not
    receive of their new weights. So both together move what an all-reduce does: the lowest split
    sums first, and all of a side's devices together then have the whole of its sum, in parts.
    Of unlike sides the larger part decides, both times: 2/3 of 8 and 4 devices, so 4/3 in all.
    """
    own = kept[item.node] if kept and item.phase in (Phase.GRADIENT, Phase.UPDATE) else None
    if item.kind is Kind.WEIGHTS:
        weights = size[item.node].weights
        return (weights * own[1], weights * own[0]) if own else (0.0, 0.0)
    if item.kind is Kind.SUMS:
        elements = _sums(item, graph, partitions, size, table)
        return (elements * own[0], elements * own[1]) if own else (elements, elements)
    made, consumer = partitions[item.node], partitions[item.consumer]
    producer = producer_type(graph[item.node], made.type)
    shares = [(consumer.share, made.share), (1.0 - consumer.share, 1.0 - made.share)]
    direction = 0 if item.phase is Phase.FORWARD else 1
    elements = size[item.consumer].reads[item.edge]
    operand = is_operand(graph[item.consumer], item.edge)
    first, second = (
        boundary(producer, consumer.type, share, table, operand, own if unlike_shares else None)[
            direction
        ]
        for share, own in shares
    )
    return first * elements, second * elements


def _sums(
    item: Item,
    graph: Graph,
    partitions: Sequence[Partition],
    size: Sequence[Sizes],
    table: Communication,
) -> float:
    """Elements each side receives to complete the partial sums of a product."""
    v, type_, share = item.node, partitions[item.node].type, partitions[item.node].share
    tied = graph[v].tied
    if tied is not None and item.phase is Phase.GRADIENT:
        types = (type_, partitions[tied].type)
        fixed, swap = tied_sums(graph[v], graph[tied], types, size[v].weights, size[tied].weights)
        return fixed + share * (1.0 - share) * swap
    if type_ not in SUMMED_IN[item.phase]:
        return 0.0
    return partial_sums(type_, size[v], pooled=table.pooled)


def flops(phase: Phase, size: Sizes) -> float:
    """FLOPs of a node's product in a phase."""
    forward, backward, gradient = size.flops
    if phase is Phase.FORWARD:
        return forward
    return backward if phase is Phase.BACKWARD else gradient
