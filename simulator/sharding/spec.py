"""How a tensor lies on the devices of a mesh: sharded, replicated or partial, level by level.

The words are those of PyTorch's DTensor: a tensor's ``Spec`` has one placement for each level
of the mesh. What a type of split makes of each tensor follows from the index that it cuts
(AccPar, Song et al., HPCA 2020, Table 1; docs/explanation/partitions.md). A layer is

    forward    output[b, o]  = sum over i of  input[b, i] * weight[i, o]
    backward   error[b, i]   = sum over o of  error[b, o] * weight[i, o]
    gradient   gradient[i, o] = sum over b of  input[b, i] * error[b, o]

A tensor that has the index is sharded along it. One that has not is replicated if it is read, and
partial if it is made: each device has a sum over its own part of the index.

    type           input      weight     output     forward    backward   gradient
    I    samples   rows       replicate  rows       rows       rows       partial
    II   inputs    columns    rows       replicate  partial    columns    rows
    III  outputs   replicate  columns    columns    columns    partial    columns
    IV   groups    columns    columns    columns    columns    columns    columns
    V    positions positions  replicate  positions  positions  positions  partial
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from planners.order import Phase
from planners.partition import II, III, IV, I, PartitionType, V, is_operand
from simulator.sharding.mesh import Mesh
from workloads import Graph


class Placement(Enum):
    """What the two halves have: a part each, cut along a dimension of the tensor, or as follows.

    REPLICATE: both have the whole, or all that a reader needs. PARTIAL: both have the whole
    shape, with addends, whose sum is the tensor.
    """

    ROWS = 0
    COLUMNS = 1
    POSITIONS = 2
    REPLICATE = "replicate"
    PARTIAL = "partial"


ROWS, COLUMNS, POSITIONS, REPLICATE, PARTIAL = Placement
Spec = tuple[Placement, ...]
"""A tensor's placements, outermost level first."""
Types = Sequence[PartitionType]
"""The partition type of every node at one level."""

CUTS = {I: "b", II: "i", III: "o", IV: "io", V: "p"}
"""The index that each type cuts: b samples, i inputs, o outputs, p positions; groups are both."""


def by_type(indices: str, *, made: bool = False) -> tuple[Placement, ...]:
    """The placement of a tensor with these ``indices`` under each type of split.

    ``made`` is a product's result before its partial sums are completed.
    """
    found: list[Placement] = []
    for type_ in PartitionType:
        dims = [dim for dim, index in enumerate(indices) if index in CUTS[type_]]
        without = PARTIAL if made else REPLICATE
        found.append(Placement(dims[-1]) if dims else without)
    return tuple(found)


INPUT = by_type("bip")
OUTPUT = by_type("bop")
OPERAND = by_type("bi")
"""A further input of a product of two activations: each position attends to all of it."""
WEIGHT = by_type("io")
TRANSPOSED = by_type("oi")
"""The weight of a layer that another one uses transposed."""
RESULT = {
    Phase.FORWARD: by_type("bop", made=True),
    Phase.RECOMPUTE: by_type("bop", made=True),
    Phase.BACKWARD: by_type("bip", made=True),
    Phase.GRADIENT: by_type("io", made=True),
}
"""What the product of each phase leaves before its partial sums are completed."""
OPERAND_ERROR = by_type("bi", made=True)


def by_positions(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    """The same where what all would have whole lies by positions (sequence parallelism)."""
    return tuple(POSITIONS if one == REPLICATE else one for one in placements)


@dataclass(frozen=True, slots=True)
class Layout:
    """How a ``node``'s partitions lay out a tensor: its placement by the partition's type.

    With ``other``, a tensor that two nodes lay out: replicated (nothing has to move)
    wherever the other one has the same placement, or replicates it.
    """

    node: int
    by_type: tuple[Placement, ...]
    other: Layout | None = None

    def on(self, types: Types) -> Placement:
        """The placement at a level where nodes have these types."""
        own = self.by_type[types[self.node]]
        if self.other is not None and self.other.on(types) in (own, REPLICATE):
            return REPLICATE
        return own

    def spec(self, mesh: Mesh) -> Spec:
        """The placements at all levels of a block."""
        return tuple(map(self.on, mesh.types))

    def split(self, mesh: Mesh) -> Placement:
        """The placement at a split into two halves."""
        return self.on(mesh.split_types)

    def share(self, mesh: Mesh) -> float:
        """The first half's share at such a split."""
        return mesh.partitions[self.node].share


Change = tuple[Layout, Layout]
"""How a tensor is held, and how it is wanted."""


def made_by(graph: Graph, node: int) -> tuple[Placement, ...]:
    """How a node's output lies under each type: a join hands on what it reads."""
    return INPUT if graph[node].join else OUTPUT


def read_by(graph: Graph, node: int, edge: int = 0) -> tuple[Placement, ...]:
    """How a node reads the tensor of one of its edges under each type."""
    return OPERAND if is_operand(graph[node], edge) else INPUT


def forward_change(graph: Graph, producer: int, consumer: int, edge: int = 0) -> Change:
    """How features are held behind ``producer``, and wanted by ``consumer`` on one of its edges."""
    return (
        Layout(producer, made_by(graph, producer)),
        Layout(consumer, read_by(graph, consumer, edge)),
    )


def backward_change(graph: Graph, producer: int, consumer: int, edge: int = 0) -> Change:
    """How errors are held before ``consumer``, and wanted by ``producer``."""
    made, read = forward_change(graph, producer, consumer, edge)
    return read, made


def tied_changes(graph: Graph, user: int) -> tuple[Change, Change]:
    """A gradient on its way from a later use to the weight's owner, and the weight's way back.

    ``user`` is a node with tied weights.
    """
    owner = graph[user].tied or 0
    transposed = "embedding" in {graph[user].kind} ^ {graph[owner].kind}
    there, here = Layout(user, TRANSPOSED if transposed else WEIGHT), Layout(owner, WEIGHT)
    return (Layout(user, there.by_type, here), here), (Layout(owner, here.by_type, there), there)


def tied_gradient(user: int, owner: int) -> Layout:
    """The gradient of a later use: where the owner sums as well, its sum carries this one."""
    gradient = RESULT[Phase.GRADIENT]
    return Layout(user, gradient, Layout(owner, gradient))
