"""How tensors lie on the devices of a part, by the types of the nodes around them."""

from __future__ import annotations

from typing import NamedTuple

from planners.partition import (
    AS_MADE,
    AS_READ,
    AS_TURNED,
    AS_WEIGHT,
    III,
    PartitionType,
    as_read,
)
from simulator.lowering.placement import Part
from simulator.lowering.requests import Types
from workloads import Graph


class Layout(NamedTuple):
    """How splits of a part lay out a tensor: which node's partitions, and by what type.

    ``as_type`` gives the layout of a partition's type: I rows, II columns, III
    whole. A holder's whole is replicated, a reader's is all that it needs.
    """

    node: int
    as_type: tuple[PartitionType, ...]

    def at(self, part: Part) -> tuple[PartitionType, float]:
        """The layout at one split and the first half's share."""
        partition = part.partitions[self.node]
        return self.as_type[partition.type], partition.share

    def of(self, types: Types) -> PartitionType:
        """The layout at one level of a block."""
        return self.as_type[types[self.node]]


class TiedLayout(NamedTuple):
    """How a node lays out a weight that ``other`` uses too and cuts in another dimension.

    The whole wherever it does not: nothing has to move there.
    """

    node: int
    as_type: tuple[PartitionType, ...]
    other: Layout

    def at(self, part: Part) -> tuple[PartitionType, float]:
        """The layout at one split and the first half's share."""
        partition = part.partitions[self.node]
        return self._apart(partition.type, self.other.at(part)[0]), partition.share

    def of(self, types: Types) -> PartitionType:
        """The layout at one level of a block."""
        return self._apart(types[self.node], self.other.of(types))

    def _apart(self, type_: PartitionType, other: PartitionType) -> PartitionType:
        own = self.as_type[type_]
        return III if own is other or other is III else own


def tied_layouts(
    graph: Graph, user: int, numbers: tuple[int, int] | None = None
) -> tuple[tuple[TiedLayout, Layout], ...]:
    """Held and read: of a gradient on the way to the weight's owner, of the weight on its way back.

    ``user`` is a node with tied weights. ``numbers`` are its own and the owner's among the
    nodes of a part, if not those of the graph.
    """
    owner = graph[user].tied or 0
    turned = graph[user].type.gathers != graph[owner].type.gathers
    one, other = numbers or (user, owner)
    there = Layout(one, AS_TURNED if turned else AS_WEIGHT)
    here = Layout(other, AS_WEIGHT)
    return (
        (TiedLayout(one, there.as_type, here), here),
        (TiedLayout(other, here.as_type, there), there),
    )


def forward_layouts(
    graph: Graph, producer: int, consumer: int, edge: int = 0
) -> tuple[Layout, Layout]:
    """How features are held behind ``producer`` and read by ``consumer`` on one of its edges."""
    as_type = AS_READ if graph[producer].join else AS_MADE
    return Layout(producer, as_type), Layout(consumer, as_read(graph[consumer], edge))


def backward_layouts(
    graph: Graph, producer: int, consumer: int, edge: int = 0
) -> tuple[Layout, Layout]:
    """How errors are held before ``consumer`` and read by ``producer``."""
    made, read = forward_layouts(graph, producer, consumer, edge)
    return read, made
