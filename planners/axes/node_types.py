"""Which type each node gets along an axis, by what it reads and who reads it.

A block of a transformer, split as Megatron does (Shoeybi et al. 2019), by the
structure alone: what reads the whole residual stream writes columns (III), heads are
apart (IV), and what reads columns sums them up for the stream again (II):

    query, key, value    III      gate, up    III
    scores, context      IV       mul         II   (a join: columns)
    output               II       down        II
    add                  III      add         III  (a join: the whole)

With sequence parallelism (Korthikanti et al. 2022) what is whole there is by positions
(V): what goes into a block is gathered, and what comes out of it is reduce-scattered. So are
tokens that are routed to experts: each device sends those of its positions, and the devices
that have parts of an expert gather what they have received.
"""

from __future__ import annotations

import math

from planners.errors import PlanError
from planners.partition import II, III, IV, I, PartitionType, V, legal
from workloads import Graph, Node

Types = tuple[PartitionType, ...]


def types_along(
    axis: str, graph: Graph, *, by_positions: bool = False, experts_whole: bool = False
) -> Types:
    """The type of every node where one axis (dp, ep, cp, tp) is split.

    ``by_positions`` is with sequence parallelism along tp; ``experts_whole`` where tp's devices
    have different experts, instead of parts of each.
    """
    if axis == "tp":
        stream_type = V if by_positions else III
        features = _of_features(graph, stream_type)
        if by_positions or experts_whole:
            features = _with_routing(graph, features, stream_type)
        return _with_whole_experts(graph, features) if experts_whole else features
    if axis == "ep":
        return _of_experts(graph)
    return tuple(V if axis == "cp" and V in legal(node) else I for node in graph)


def experts(node: Node) -> bool:
    """Whether a node's groups are experts: products with weights of their own."""
    return node.groups > 1 and not node.join and not node.computed


def _of_experts(graph: Graph) -> Types:
    """Experts apart, samples of all else; a join between experts is of their columns."""
    apart: list[bool] = []
    for node in graph:
        inside = node.join and bool(node.producers) and all(apart[u] for u in node.producers)
        apart.append((inside and not node.routes) or experts(node))
    return tuple(
        (II if node.join else IV) if one else I for node, one in zip(graph, apart, strict=True)
    )


def _of_features(graph: Graph, stream_type: PartitionType) -> Types:
    """Columns and rows in turn, heads and groups whole; joins of the stream are of their type.

    Of each node is kept in how many groups its columns lie, 0 where its readers find the
    whole: experts that read columns of experts are cut inside (II), grouped convolutions
    that read the columns of others are not (IV). What is added to something else is read whole.
    A head has its words in columns, whatever it reads: one that is tied, or that makes more than
    it reads and is read by nobody, as in the stage of a pipeline that does not have the table.
    """
    stream = {u for node in graph if node.type.sums for u in node.producers}
    read_by_some = {u for node in graph for u in node.producers}
    found: list[PartitionType] = []
    columns: list[int] = []
    for v, node in enumerate(graph):
        read = [columns[u] for u in node.producers]
        if node.join:
            type_ = II if read and all(read) and II in legal(node) and not node.routes else III
            if type_ is III and stream_type in legal(node) and not node.routes:
                type_ = stream_type
            left = max(read) if type_ is II else 0
        else:
            last = v not in read_by_some and node.out_channels > node.in_channels
            head = node.tied is not None or last
            type_ = _of_product(node, 0 if head else max(read, default=0))
            left = node.groups if type_ is III else int(type_ is IV)
        found.append(type_)
        columns.append(0 if v in stream else left)
    return tuple(found)


def _with_routing(graph: Graph, features: Types, stream_type: PartitionType) -> Types:
    """Who sends tokens to experts, and back, and who says where, lies as the stream does."""
    routing = {u for node in graph if node.routes for u in node.producers}
    routing = {v for v in routing if not graph[v].join and not experts(graph[v])}
    return tuple(
        stream_type if (node.routes or v in routing) and stream_type in legal(node) else type_
        for v, (node, type_) in enumerate(zip(graph, features, strict=True))
    )


def _with_whole_experts(graph: Graph, features: Types) -> Types:
    """Each expert whole on one device, and all else as it was."""
    return tuple(
        type_ if apart is I else apart
        for type_, apart in zip(features, _of_experts(graph), strict=True)
    )


def _of_product(node: Node, columns: int) -> PartitionType:
    """The first legal type of those that suit a product; I where there is none."""
    if node.type.gathers:
        wanted = [II]
    elif not columns:
        wanted = [III, IV]
    else:
        wanted = [II, IV] if columns == node.groups else [IV, II]
    allowed = legal(node)
    return next((one for one in wanted if one in allowed), I)


def check_groups(graph: Graph, axis: str, ways: int) -> None:
    """Raise PlanError where a split into so many ways would cut a head or an expert."""
    for node in graph:
        apart = experts(node) if axis == "ep" else node.computed and axis == "tp"
        if apart and node.groups % ways:
            what = "experts" if axis == "ep" else "heads (of keys, where queries share them)"
            raise PlanError(
                f"{axis}={ways}: {node.name!r} has {node.groups} {what}, which {ways} does not "
                f"divide; take {axis}={math.gcd(node.groups, ways)}"
            )
    if axis == "ep" and not any(map(experts, graph)):
        raise PlanError(f"ep={ways}: the network has no experts (groups of a layer with weights)")
