"""Layers that read one tensor in one layout: it is exchanged once for all of them.

Query, key and value of a block, each of type III, read the whole of one tensor. It is
gathered once, before the first of them; and its error is the sum of theirs: partial
sums are added up on each device before they are exchanged, once, behind the last one.
"""

from __future__ import annotations

from collections.abc import Sequence

from simulator.lowering.placement import Part
from workloads import Graph, Network

Siblings = dict[int, tuple[int, ...]]
"""Of a layer with siblings all of them, in the order of the graph, itself among them."""


def siblings_of(network: Network, graph: Graph, parts: Sequence[Part]) -> Siblings:
    """Layers with weights that read one tensor, and nothing else, split by the same types."""
    layers = {layer.name: layer for layer in network.layers}
    found: dict[tuple[object, ...], list[int]] = {}
    for v, node in enumerate(graph):
        inputs = layers[node.name].inputs
        if not node.join and not node.computed and len(inputs) == 1:
            sort = node.producers, inputs[0], _splits(parts, v)
            found.setdefault(sort, []).append(v)
    return {v: tuple(some) for some in found.values() if len(some) > 1 for v in some}


def _splits(parts: Sequence[Part], v: int) -> tuple[object, ...]:
    """How a node is split, and who has something of it, in all parts."""
    return tuple(
        (part.partitions[v].type, part.partitions[v].share)
        if part.halves
        else (*(types[v] for types in part.types), part.mask((v,)).tobytes())
        for part in parts
    )
