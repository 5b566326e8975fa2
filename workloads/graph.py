"""What planners partition: weighted layers and joins, with the tensors between them.

Pools, activations and normalisation keep whatever layout their input has, so
they vanish into the edges: an edge is the tensor its consumer reads.
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads.layers import INPUT, JOINS, UNARY, Layer, Network


@dataclass(frozen=True, slots=True)
class Node:
    """A weighted layer or a join, with its sizes per sample.

    ``in_channels`` and ``out_channels`` are the D_i and D_o of the AccPar
    paper; areas are elements of one channel's map. ``pooled_area`` is the
    output map after the pools that follow the layer. ``producers`` are
    indices of earlier nodes, one for each input that is not the network's.
    ``main`` is, for a join, the weighted layer its longest path ends in: the
    join takes that layer's share.
    """

    name: str
    kind: str
    in_channels: int
    out_channels: int
    kernel_area: int
    in_area: int
    out_area: int
    pooled_area: int
    producers: tuple[int, ...]
    main: int | None = None

    @property
    def join(self) -> bool:
        """Whether the node only joins paths (no weights, no cost of its own)."""
        return self.kind in JOINS


Graph = tuple[Node, ...]
"""Nodes in topological order."""


def partition_graph(network: Network) -> Graph:
    """Condense a network to its weighted layers and joins."""
    nodes: list[Node] = []
    depth: list[int] = []
    behind: dict[str, int | None] = {INPUT: None}
    pooled = _pooled_areas(network)
    for layer in network.layers:
        sources = [behind[name] for name in layer.inputs]
        if layer.kind in UNARY:
            behind[layer.name] = sources[0]
            continue
        producers = tuple(i for i in sources if i is not None)
        nodes.append(_node(layer, producers, pooled[layer.name], nodes, depth))
        below = max((depth[i] for i in producers), default=0)
        depth.append(below + (1 if layer.weighted else 0))
        behind[layer.name] = len(nodes) - 1
    return tuple(nodes)


def _node(
    layer: Layer, producers: tuple[int, ...], pooled: int, nodes: list[Node], depth: list[int]
) -> Node:
    main: int | None = None
    if layer.kind in JOINS and producers:
        deepest = max(producers, key=lambda i: depth[i])
        main = nodes[deepest].main if nodes[deepest].join else deepest
    return Node(
        name=layer.name,
        kind=layer.kind,
        in_channels=layer.input.channels,
        out_channels=layer.output.channels,
        kernel_area=layer.kernel**2,
        in_area=layer.input.area,
        out_area=layer.output.area,
        pooled_area=pooled,
        producers=producers,
        main=main,
    )


def _pooled_areas(network: Network) -> dict[str, int]:
    """Per layer, the map's area after the chain of unweighted operators behind it."""
    readers: dict[str, list[Layer]] = {}
    for layer in network.layers:
        for source in layer.inputs:
            readers.setdefault(source, []).append(layer)
    areas: dict[str, int] = {}
    for layer in reversed(network.layers):
        areas[layer.name] = layer.output.area
        behind = readers.get(layer.name, [])
        if len(behind) == 1 and behind[0].kind in UNARY - {"flatten"}:
            areas[layer.name] = areas[behind[0].name]
    return areas
