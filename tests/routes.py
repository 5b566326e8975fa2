"""Links that one message crosses, in order, fabric by fabric: what loads are compared with."""

from __future__ import annotations

from functools import singledispatch

import numpy as np

from hardware import Wires
from hardware.interconnect.cables import Cables
from hardware.interconnect.fabric import Fabric, Memory
from hardware.interconnect.one_hop import Bus, FullyConnected, Ports
from hardware.interconnect.torus import Grid
from hardware.interconnect.tree import Tree


def route(wires: Wires, source: int, target: int) -> tuple[int, ...]:
    """From core to core; an HBM is crossed twice."""
    for subnet, _ in wires.by_subnet(np.array([source]), np.array([target])):
        nodes = int(subnet.node[source]), int(subnet.node[target])
        return tuple(subnet.links.start + link for link in route_on(subnet.fabric, *nodes))
    return ()


@singledispatch
def route_on(fabric: Fabric, source: int, target: int) -> list[int]:
    """From node to node of one fabric."""
    raise NotImplementedError(type(fabric))


@route_on.register
def _(fabric: Cables, source: int, target: int) -> list[int]:
    return fabric.route(source, target)


@route_on.register
def _(fabric: Memory, source: int, target: int) -> list[int]:  # noqa: ARG001
    return [source, target]


@route_on.register
def _(fabric: Bus, source: int, target: int) -> list[int]:  # noqa: ARG001
    return [0]


@route_on.register
def _(fabric: Ports, source: int, target: int) -> list[int]:
    inside = [2 * fabric._ports + source // fabric._members] if fabric._over > 1 else []
    return [source, *inside, fabric._ports + target]


@route_on.register
def _(fabric: FullyConnected, source: int, target: int) -> list[int]:
    return [source * (fabric._nodes - 1) + target % fabric._nodes - (target > source)]


@route_on.register
def _(fabric: Tree, source: int, target: int) -> list[int]:
    apart = fabric._subtree[:, [source, target]]
    apart = apart[apart[:, 0] != apart[:, 1]]
    up = [int(link) for link in apart[::-1, 0] if link >= 0]
    return up + [int(link) + len(fabric._first) for link in apart[:, 1] if link >= 0]


@route_on.register
def _(fabric: Grid, source: int, target: int) -> list[int]:
    copy, node = divmod(source, fabric.size)
    place = int(fabric._place[node])
    links: list[int] = []
    for d, (side, stride) in enumerate(zip(fabric.shape, fabric.strides, strict=True)):
        here = fabric.coordinates[node : node + 1, d]
        there = fabric.coordinates[target % fabric.size, d]
        steps = int(fabric.steps(here, there, d)[0])
        at = int(here[0])
        for _ in range(abs(steps)):
            slot = ((copy * fabric.size + place) * len(fabric.shape) + d) * 2 + (steps < 0)
            links.append(int(fabric._link[slot]))
            following = (at + (1 if steps > 0 else -1)) % side
            place += (following - at) * stride
            at = following
    return links
