"""What planners partition: products and joins, with the tensors between them.

Pools, activations and normalisation keep whatever layout their input has, so
they vanish into the edges: an edge is the tensor its consumer reads. An
operator without a kind of its own that reads several nodes is a join.
"""

from __future__ import annotations

from dataclasses import dataclass

from workloads.cache import once_for_each
from workloads.layer_types import TYPES, Layer, LayerType
from workloads.layer_types.other import COMBINE, DISPATCH, RECEIVED
from workloads.network import Network
from workloads.tensors import INPUT, Tensor


@dataclass(frozen=True, slots=True)
class Node:
    """A product or a join, with its sizes per sample.

    ``in_channels`` and ``out_channels`` are the D_i and D_o of the AccPar
    paper, over all ``groups``; areas are elements of one channel's map. ``kind`` is the name
    of the layer's type.
    ``pooled_area`` is the output map after the pools that follow the layer.
    ``producers`` are indices of earlier nodes, one for each input that is not
    the network's, and ``reads`` the tensor on each of those edges. ``main``
    is, for a join, the product its longest path ends in: the join takes that
    one's share. ``operand`` counts the elements of a matmul's second operand, or of
    attention's keys and values. ``tied`` is the index of the node whose weights this one
    uses. Of block-circulant ones there is one in ``block``, and ``work`` is what is left of
    the products. ``fused`` are a fused kernel's multiply-accumulates (``Dimensions``). A join
    that ``routes`` brings tokens to experts, or back: its columns are not those of what it
    reads.
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
    groups: int = 1
    reads: tuple[Tensor, ...] = ()
    operand: int = 0
    transposed: bool = False
    tied: int | None = None
    block: int = 1
    work: float = 1.0
    routes: bool = False
    fused: tuple[float, float] = (0.0, 0.0)

    def __hash__(self) -> int:
        """By its name: graphs are asked for often, and have thousands of nodes."""
        return hash(self.name)

    @property
    def type(self) -> LayerType:
        """What the layer's type says of it."""
        return TYPES[self.kind]

    @property
    def dispatches(self) -> bool:
        """Whether it brings tokens to experts, of which there are several."""
        return self.routes and self.out_channels > self.in_channels

    @property
    def computed(self) -> bool:
        """Whether it multiplies what others compute, without weights."""
        return TYPES[self.kind].computed

    @property
    def shardable(self) -> tuple[str, ...]:
        """Those of DIMENSIONS that a plan may split, where there are several of them."""
        may = self.type.shardable
        return tuple(one for one in may if one != "inputs") if self.routes else may

    @property
    def join(self) -> bool:
        """Whether the node only joins paths (no weights, no cost of its own)."""
        return not TYPES[self.kind].product


Graph = tuple[Node, ...]
"""Nodes in topological order."""


@once_for_each
def partition_graph(network: Network) -> Graph:
    """Condense a network to its products and joins: once for each, of those asked for lately."""
    return _Condenser(network).graph()


class _Condenser:
    def __init__(self, network: Network) -> None:
        self.network = network
        self.nodes: list[Node] = []
        self.depth: list[int] = []
        self.behind: dict[str, int | None] = {INPUT: None}
        self.entered: dict[str, str] = {}
        """The tensor of another stage that a name stands for."""
        self.pooled = _pooled_areas(network)

    def graph(self) -> Graph:
        for layer in self.network.layers:
            sources = {i for name in layer.inputs if (i := self._source(name)) is not None}
            if not (layer.type.product or layer.type.join) and len(sources) < 2:  # as its source
                found = [i for name in layer.inputs if (i := self.behind[name]) is not None]
                self.behind[layer.name] = found[0] if found else None
                if not found and (of := self._entered(layer)):
                    self.entered[layer.name] = of
            else:
                self._append(layer)
        return tuple(self.nodes)

    def _source(self, name: str) -> int | str | None:
        """Which node, or which tensor of another stage, a name stands for."""
        node = self.behind[name]
        return self.entered.get(name) if node is None else node

    def _entered(self, layer: Layer) -> str | None:
        if layer.operator == RECEIVED:
            return layer.name
        return next((self.entered[name] for name in layer.inputs if name in self.entered), None)

    def _append(self, layer: Layer) -> None:
        edges = [
            (i, shape)
            for name, shape in zip(layer.inputs, layer.operands, strict=True)
            if (i := self.behind[name]) is not None
        ]
        producers = tuple(i for i, _ in edges)
        self.nodes.append(
            Node(
                name=layer.name,
                kind=layer.kind,
                kernel_area=layer.kernel_area,
                pooled_area=self.pooled[layer.name],
                producers=producers,
                main=None if layer.type.product else self._main(producers),
                reads=tuple(shape for _, shape in edges),
                transposed=layer.transposed,
                tied=self.behind[layer.shared] if layer.shared else None,
                block=layer.block,
                routes=layer.operator in (DISPATCH, COMBINE),
                **layer.type.dimensions(layer)._asdict(),
            )
        )
        below = max((self.depth[i] for i in producers), default=0)
        self.depth.append(below + (1 if layer.type.product else 0))
        self.behind[layer.name] = len(self.nodes) - 1

    def _main(self, producers: tuple[int, ...]) -> int | None:
        if not producers:
            return None
        deepest = max(producers, key=lambda i: self.depth[i])
        return self.nodes[deepest].main if self.nodes[deepest].join else deepest


def _pooled_areas(network: Network) -> dict[str, int]:
    """Per layer, the map's area after the chain of pools and the like behind it."""
    readers: dict[str, list[Layer]] = {}
    for layer in network.layers:
        for source in layer.inputs:
            readers.setdefault(source, []).append(layer)
    areas: dict[str, int] = {}
    for layer in reversed(network.layers):
        areas[layer.name] = layer.output.area
        behind = readers.get(layer.name, [])
        if len(behind) == 1 and behind[0].type.keeps_maps:
            areas[layer.name] = areas[behind[0].name]
    return areas


def owners(network: Network, graph: Graph) -> dict[str, tuple[int, bool]]:
    """The node each layer belongs to, and whether it lies in front of it.

    Operators behind a node are its own; those on the network's input belong
    to the first node, which has nothing else to read.
    """
    index = {node.name: i for i, node in enumerate(graph)}
    owner: dict[str, tuple[int, bool]] = {INPUT: (0, True)}
    for layer in network.layers:
        if layer.name in index:
            owner[layer.name] = index[layer.name], False
        else:
            behind = (owner[name] for name in layer.inputs if not owner[name][1])
            owner[layer.name] = next(behind, owner[INPUT])
    return owner
