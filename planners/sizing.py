"""The sizes of all nodes of a graph at once, for the shards of one split or of many.

``tests/planners/slow_sizes.py`` says it of one node, with the same operations in the same
order: each number is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from planners.partition import IV, Partition, PartitionType, Shard, Sizes, is_operand, legal
from workloads import Graph
from workloads.cache import once_for_each

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class AllSizes:
    """``Sizes`` of every node as arrays whose last axis is the nodes'.

    That of ``reads`` is the edges' of all nodes, node by node; ``flops`` are those of
    forward, backward and gradient.
    """

    weights: Floats
    input: Floats
    output: Floats
    pooled: Floats
    flops: tuple[Floats, Floats, Floats]
    reads: Floats
    operand: Floats

    def sums(self, *, pooled: bool) -> Floats:
        """``partial_sums`` of each type, on a further last axis."""
        made = self.pooled if pooled else self.output
        gradient = self.weights + self.operand
        sums = [self.weights, made, self.input, np.zeros_like(made), gradient]
        return np.stack(sums, axis=-1)


class Sizing:
    """What of a graph decides how large its tensors are; built once for each graph."""

    def __init__(self, graph: Graph) -> None:
        def column(values: Iterable[float]) -> Floats:
            return np.array([*values], dtype=np.float64)

        self._inputs = column(node.in_channels for node in graph)
        self._outputs = column(node.out_channels for node in graph)
        self._groups = column(node.groups for node in graph)
        self._kernel = column(node.kernel_area for node in graph)
        self._in_area = column(node.in_area for node in graph)
        self._out_area = column(node.out_area for node in graph)
        self._pooled_area = column(node.pooled_area for node in graph)
        self._operand = column(node.operand for node in graph)
        self._block = column(node.block for node in graph)
        self._work = column(node.work for node in graph)
        self._join = np.array([node.join for node in graph])
        self._gather = np.array([node.type.gathers for node in graph])
        self._fused = np.array([any(node.fused) for node in graph])
        self._computed = np.array([node.computed for node in graph])
        self._matmul = self._computed & ~self._fused
        self._fused_macs = tuple(column(node.fused[i] for node in graph) for i in range(2))
        self._turned = np.array([node.transposed for node in graph])
        self._full = np.array([node.type.fully_connected for node in graph])
        self.reader = np.array([v for v, node in enumerate(graph) for _ in node.reads], np.intp)
        """Of each edge, the node that reads it."""
        self._shared = np.array(
            [is_operand(node, e) for node in graph for e in range(len(node.reads))]
        )
        """Of each edge, whether every position needs all of its tensor."""
        self._read_channels = column(read.channels for node in graph for read in node.reads)
        self._read_area = column(read.area for node in graph for read in node.reads)
        self._types = np.array([[one in legal(node) for one in PartitionType] for node in graph])

    def of(self, batch: int, shards: Floats, *, fused: bool = False) -> AllSizes:
        """The sizes for shards whose last two axes are the nodes and the fields of ``Shard``."""
        samples, ins, outs, groups, positions = (batch * shards[..., 0], *_fields(shards)[1:])
        rows = samples * positions
        outputs = self._outputs * outs * groups
        kept = (ins * groups)[..., self.reader]
        of_edge = np.where(self._shared, samples[..., self.reader], rows[..., self.reader])
        reads = of_edge * (self._read_channels * kept) * self._read_area
        source = rows * (self._inputs * ins * groups) * self._in_area
        made = np.where(self._join, source, rows * outputs * self._out_area)
        pooled = np.where(self._join, source, rows * outputs * self._pooled_area)
        depth = self._inputs * ins / self._groups
        weights = np.where(self._join | self._computed, 0.0, depth * outputs * self._kernel)
        operand = samples * self._operand * groups
        flops = self._flops(rows, operand, shards, source, made, weights, 0 if fused else 1)
        weights, source = weights / self._block, np.where(self._gather, 0.0, source)
        return AllSizes(weights, source, made, pooled, flops, reads, operand)

    def each(self, batch: int, shards: Floats, *, fused: bool = False) -> list[Sizes]:
        """The sizes of every node as plain numbers, for the shards of one group."""
        found = self.of(batch, shards, fused=fused)
        reads = [list[float]() for _ in self._join]
        for reader, elements in zip(self.reader.tolist(), found.reads.tolist(), strict=True):
            reads[reader].append(elements)
        columns = (found.weights, found.input, found.output, found.pooled)
        flops = zip(*(one.tolist() for one in found.flops), strict=True)
        values = (column.tolist() for column in columns)
        operand = found.operand.tolist()
        rows = zip(*values, flops, map(tuple, reads), operand, strict=True)
        return [Sizes(*row) for row in rows]

    def _flops(
        self,
        rows: Floats,
        operand: Floats,
        shards: Floats,
        source: Floats,
        made: Floats,
        weights: Floats,
        saved: int,
    ) -> tuple[Floats, Floats, Floats]:
        """Those of layers by their kernels, of matmuls by their operands."""
        _, ins, outs, groups, positions = _fields(shards)
        into = self._inputs * ins / self._groups * self._kernel
        out = self._outputs * outs / self._groups * self._kernel
        area = np.where(self._turned, self._in_area, self._out_area)
        into_, out_ = self._inputs / self._groups, self._outputs / self._groups
        by_into = np.maximum(0.0, 2 * np.where(self._matmul, into_, into) - saved)
        by_out = np.maximum(0.0, 2 * np.where(self._matmul, out_, out) - saved)
        forward = np.where(self._turned, source * by_out, made * by_into)
        backward = np.where(self._full | self._matmul, source * by_out, forward)
        second = operand * np.maximum(0.0, 2 * self._in_area * positions - saved)
        gradient = weights * np.maximum(0.0, 2 * rows * area - saved)
        gradient = np.where(self._matmul, second, gradient)
        none = self._join | self._gather
        forward, backward, gradient = (
            np.where(none, 0.0, one * self._work) for one in (forward, backward, gradient)
        )
        ahead, back = (2 * rows * groups * each for each in self._fused_macs)
        return (
            np.where(self._fused, ahead, forward),
            np.where(self._fused, back, backward),
            gradient,
        )

    def illegal(self, shards: Floats, types: Ints) -> int | None:
        """The first node that may not take its type where these shards are left (``legal``)."""
        parted = (self._groups > 1) & (self._groups * shards[:, IV] >= 2.0)
        fits = self._types[np.arange(len(types)), types] & ((types != IV) | parted)
        return None if fits.all() else int(np.argmin(fits))


@once_for_each
def sizing(graph: Graph) -> Sizing:
    """A graph's sizes."""
    return Sizing(graph)


def whole(graph: Graph) -> Floats:
    """The shards of a group that holds everything."""
    return np.ones((len(graph), len(Shard._fields)))


def array_of(shards: Iterable[Sequence[Shard]], nodes: int) -> Floats:
    """Shards of several groups as one array: group, node, field."""
    flat = chain.from_iterable(chain.from_iterable(shards))
    return np.fromiter(flat, np.float64).reshape(-1, nodes, len(Shard._fields))


def types_of(partitions: Sequence[Partition]) -> Ints:
    """The number of each one's type."""
    return np.array([partition.type for partition in partitions], np.intp)


def shares_of(partitions: Sequence[Partition]) -> Floats:
    """The first half's share of each."""
    return np.array([partition.share for partition in partitions])


def kept(shards: Floats, types: Ints, shares: Floats) -> tuple[Floats, Floats]:
    """What each side of a split keeps of every node."""
    nodes = np.arange(len(types))
    first, second = shards.copy(), shards.copy()
    first[nodes, types] *= shares
    second[nodes, types] *= 1.0 - shares
    return first, second


def _fields(shards: Floats) -> tuple[Floats, ...]:
    return tuple(shards[..., type_] for type_ in PartitionType)
