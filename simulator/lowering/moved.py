"""What the published model's exchanges move, for all splits of a plan at once.

What ``planners.order.received`` says of one exchange of one split, with the same
operations in the same order: each number is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from planners.cost.tied_weights import tied_sums
from planners.order import SUMMED_IN, Item, Kind, Phase
from planners.partition import (
    AS_MADE,
    AS_OPERAND,
    AS_PRODUCER,
    AS_READ,
    II,
    III,
    Communication,
    I,
    PartitionType,
    is_operand,
)
from planners.sizing import AllSizes, Floats, Ints
from workloads import Graph

Received = tuple[int, float, float]
"""The number of a split, and what its first and its second side receive."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What is received at splits that move anything, by the kind, phase and node of an exchange.

    That of a boundary is by the number of its edge, counted over all nodes.
    """

    sums: Mapping[Phase, list[list[Received]]]
    weights: list[list[Received]]
    """Those that are gathered; the lowest split comes first."""
    boundaries: Mapping[Phase, list[list[Received]]]
    first_edge: list[int]

    def of(self, item: Item) -> list[Received]:
        """The splits at which an exchange moves something, in their order."""
        if item.kind is Kind.WEIGHTS:
            return self.weights[item.node]
        if item.kind is Kind.SUMS:
            return self.sums[item.phase][item.node]
        return self.boundaries[item.phase][self.first_edge[item.consumer] + item.edge]


def moved(
    graph: Graph,
    size: AllSizes,
    types: Ints,
    shares: Floats,
    table: Communication,
    element_bytes: float,
    kept: tuple[Floats, Floats] | None = None,
) -> Moved:
    """Bytes that every exchange moves; arrays have a row for each split, a column for each node.

    ``kept`` is what each side updates of the weights, where the split shares out their
    update, and else 1.
    """
    all_sums = size.sums(pooled=table.pooled)
    sums = {
        phase: np.sum([np.where(types == one, all_sums[..., one], 0.0) for one in summed], axis=0)
        for phase, summed in SUMMED_IN.items()
    }
    _tie(sums[Phase.GRADIENT], graph, size, types, shares)
    edges = [len(node.producers) for node in graph]
    listed = {
        phase: _listed(both * element_bytes, both * element_bytes) for phase, both in sums.items()
    }
    weights: list[list[Received]] = []
    if kept is not None:
        first, second = kept
        gradient, new = sums[Phase.GRADIENT], np.where(first < 1.0, size.weights, 0.0)
        listed[Phase.GRADIENT] = _listed(
            gradient * first * element_bytes, gradient * second * element_bytes
        )
        up = _listed(new * second * element_bytes, new * first * element_bytes)
        weights = [found[::-1] for found in up]
    return Moved(
        listed,
        weights,
        _boundaries(graph, size.reads, types, shares, table, element_bytes),
        [0, *np.cumsum(edges).tolist()],
    )


def _tie(gradient: Floats, graph: Graph, size: AllSizes, types: Ints, shares: Floats) -> None:
    """Put in what layers exchange whose weights are another's."""
    for v, node in enumerate(graph):
        if node.tied is None or node.join:
            continue
        for split, share in enumerate(shares[:, v].tolist()):
            both = PartitionType(types[split, v]), PartitionType(types[split, node.tied])
            weights = float(size.weights[split, v]), float(size.weights[split, node.tied])
            fixed, swap = tied_sums(node, graph[node.tied], both, *weights)
            gradient[split, v] = fixed + share * (1.0 - share) * swap


def _boundaries(
    graph: Graph,
    reads: Floats,
    types: Ints,
    shares: Floats,
    table: Communication,
    element_bytes: float,
) -> dict[Phase, list[list[Received]]]:
    """Of every edge, forward and backward."""
    producer = np.array([u for node in graph for u in node.producers], np.intp)
    reader = np.array([v for v, node in enumerate(graph) for _ in node.producers], np.intp)
    join = np.array([node.join for node in graph])
    operand = np.array([is_operand(n, e) for n in graph for e in range(len(n.producers))], bool)
    seen = np.array(AS_PRODUCER)[types]
    of_producer = np.where(join, seen, types)[:, producer]
    of_reader, share = types[:, reader], shares[:, reader]
    made = np.array(AS_MADE)[of_producer]
    read = np.where(operand, np.array(AS_OPERAND)[of_reader], np.array(AS_READ)[of_reader])
    counts = np.ones(made.shape, bool)
    if table is Communication.PLOTTED:
        counts = (of_producer == I) & (of_reader == II)

    def received(held: Ints, wanted: Ints, part: Floats) -> Floats:
        lacks = np.where(wanted == III, 1.0, part) * (1.0 - part)
        lacks = np.where((held == III) | (held == wanted) | ~counts, 0.0, lacks)
        return lacks * reads * element_bytes

    return {
        phase: _listed(received(held, wanted, share), received(held, wanted, 1.0 - share))
        for phase, held, wanted in ((Phase.FORWARD, made, read), (Phase.BACKWARD, read, made))
    }


def _listed(first: Floats, second: Floats) -> list[list[Received]]:
    """Of each column, the rows in which there is something, with what is in them."""
    column, row = np.nonzero(((first != 0.0) | (second != 0.0)).T)
    found = [
        *zip(row.tolist(), first[row, column].tolist(), second[row, column].tolist(), strict=True)
    ]
    ends = np.searchsorted(column, np.arange(1, first.shape[1] + 1)).tolist()
    return [found[start:end] for start, end in zip([0, *ends], ends, strict=False)]
