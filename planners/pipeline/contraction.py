"""A max-load graph in units that stay together, and the units that it costs nothing to join.

A unit is all nodes of a colour, forward and backward. Forward edges order the
units; a unit without a forward node is ordered by its backward edges, turned round
(its forward twin would have the edges of the mirror image). Units on a cycle are one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planners.pipeline.load_graph import LoadGraph
from planners.pipeline.masks import bits, neighbours, reachable, topological


@dataclass(slots=True)
class Units:
    """Units by position: the graph's nodes in each, edges between, and outputs with their units.

    ``outputs``: seconds, and a mask of the units that make or need it.
    """

    nodes: list[list[int]]
    edges: set[tuple[int, int]]
    outputs: list[tuple[float, int]]


def units_of(graph: LoadGraph) -> Units:
    """The units of a graph, those joined that no plan needs apart."""
    colour = [node.colour for node in graph.nodes]
    forward = {node.colour for node in graph.nodes if not node.backward}
    edges = set[tuple[int, int]]()
    for source, target in graph.edges:
        ends = colour[source], colour[target]
        if not graph.nodes[target].backward:
            edges.add(ends)
        elif graph.nodes[source].backward and not forward.issuperset(ends):
            edges.add(ends[::-1])
    same = _on_cycles(list(dict.fromkeys(colour)), edges)
    units = _built(graph, [same[one] for one in colour], {(same[a], same[b]) for a, b in edges})
    while len((fewer := _joined(graph, units)).nodes) < len(units.nodes):
        units = fewer
    return units


def disordered(graph: LoadGraph) -> int:
    """How many backward edges keep a contiguous forward part from having a contiguous backward one.

    None if all run against the forward pass's order of colours, as a mirror image does, or
    all with it, as in the files of the paper; else how many are against the majority.
    """
    colour = [node.colour for node in graph.nodes]
    place = {one: i for i, one in enumerate(dict.fromkeys(colour))}
    ends = [(place[colour[a]], place[colour[b]]) for a, b in graph.edges if colour[a] != colour[b]]
    passes = [graph.nodes[a].backward for a, b in graph.edges if colour[a] != colour[b]]
    sides = [graph.nodes[b].backward for a, b in graph.edges if colour[a] != colour[b]]
    forward = {edge for edge, late in zip(ends, sides, strict=True) if not late}
    before, _ = neighbours(len(place), forward)
    leads = reachable(topological(len(place), forward), before)
    backward = [edge for edge, early in zip(ends, passes, strict=True) if early]
    against = sum(not leads[a] >> b & 1 for a, b in backward)
    along = sum(not leads[b] >> a & 1 for a, b in backward)
    return min(against, along)


def _built(graph: LoadGraph, unit_of: list[int], edges: Iterable[tuple[int, int]]) -> Units:
    place = {name: i for i, name in enumerate(dict.fromkeys(unit_of))}
    nodes: list[list[int]] = [[] for _ in place]
    for node, name in enumerate(unit_of):
        nodes[place[name]].append(node)
    reach = [1 << place[name] for name in unit_of]
    for source, target in graph.edges:
        reach[source] |= 1 << place[unit_of[target]]
    outputs = [(graph.nodes[v].output_s, mask) for v, mask in enumerate(reach)]
    return Units(
        nodes,
        {(place[a], place[b]) for a, b in edges if a != b},
        [(seconds, mask) for seconds, mask in outputs if seconds and mask.bit_count() > 1],
    )


def _on_cycles(names: list[int], edges: set[tuple[int, int]]) -> dict[int, int]:
    """Each name's representative: names that lead to one another have one."""
    place = {name: i for i, name in enumerate(names)}
    after = [1 << i for i in range(len(names))]
    for source, target in edges:
        after[place[source]] |= 1 << place[target]
    for middle in range(len(names)):  # Warshall's closure, a row of bits at a time
        for i in range(len(names)):
            if after[i] >> middle & 1:
                after[i] |= after[middle]
    found = {}
    for name, i in place.items():
        found[name] = next(names[j] for j in bits(after[i]) if after[j] >> i & 1)
    return found


def _joined(graph: LoadGraph, units: Units) -> Units:
    """Join units without work to a neighbour d, where that makes no device's load larger.

    A unit c qualifies if it takes no time, every output with c has d too, memory never
    binds (or c has no bytes), and either d follows c and leads to all that c feeds, or
    d feeds c and all that feeds c leads to d. Moving c to d's device keeps the order; an
    output that then crosses its border crossed it before. So the least load stays.
    """
    binds = sum(node.bytes for node in graph.nodes) > graph.memory_bytes
    supported = all(node.on_accelerator for node in graph.nodes)
    into = list(range(len(units.nodes)))

    def idle(unit: int) -> bool:
        return supported and all(
            not (node.accelerator_s or node.cpu_s or (binds and node.bytes))
            for node in (graph.nodes[v] for v in units.nodes[unit])
        )

    before, after = neighbours(len(into), units.edges)
    outputs = [mask for _, mask in units.outputs]
    for unit in filter(idle, range(len(into))):
        target = _host(unit, before, after, outputs)
        if target is None:
            continue
        into[unit] = target
        _move(unit, target, before, after)
        outputs = [mask & ~(1 << unit) for mask in outputs]  # the host is in it
        outputs = [mask for mask in outputs if mask.bit_count() > 1]
    unit_of = [0] * len(graph.nodes)
    for unit, nodes in enumerate(units.nodes):
        host = unit
        while into[host] != host:
            host = into[host]
        for node in nodes:
            unit_of[node] = host
    return _built(graph, unit_of, [(a, b) for a, fed in enumerate(after) for b in bits(fed)])


def _move(unit: int, target: int, before: list[int], after: list[int]) -> None:
    """Give a unit's neighbours to another one."""
    for near, far in ((before, after), (after, before)):
        for one in bits(near[unit]):
            far[one] = far[one] & ~(1 << unit) | 1 << target
        near[target] |= near[unit]
        near[unit] = 0
    for near in (before, after):
        near[target] &= ~(1 << target | 1 << unit)


def _host(unit: int, before: list[int], after: list[int], outputs: list[int]) -> int | None:
    """A neighbour that a unit without work can be joined to, the first there is."""
    shared = -1
    for mask in outputs:
        if mask >> unit & 1:
            shared &= mask
    for directed in (after, before):
        fed = directed[unit]
        for host in bits(fed & shared):
            if not fed & ~_from(host, directed, fed):
                return host
    return None


def _from(start: int, after: list[int], wanted: int) -> int:
    """What a unit leads to, with itself, until all that is wanted is among it."""
    found = todo = 1 << start
    while todo and wanted & ~found:
        reached = 0
        for one in bits(todo):
            reached |= after[one]
        todo = reached & ~found
        found |= todo
    return found
