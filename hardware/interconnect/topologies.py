"""Every topology by name: how it is built, and what a spec may say of it; tiers of several.

To add one, write its fabric in a file of this folder and its line here: spec
files, faults, routes and the bisection's bandwidths follow. To have it as a tier, too, name it in
``hardware.schema.LevelTable`` and build it in ``_fabric``.

In tiers (eight nodes on a switch, four of these on another one, and so on) a message takes
the innermost tier that joins its ends, and nothing else. There a unit (a node, or a group of
the tier below) has ``rails`` ports, which its nodes share evenly, those of neighbouring
numbers one port.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from hardware.interconnect.cables import Cables, of_part
from hardware.interconnect.fabric import Fabric, Ints, Nodes, at_share
from hardware.interconnect.one_hop import Bus, FullyConnected, Ports, Switch
from hardware.interconnect.torus import Grid, named
from hardware.interconnect.tree import Tree
from hardware.topology import Tier, Topology, near_cubic


def _one(topology: Topology, nodes: int) -> int:  # noqa: ARG001
    return 1


def _to_all(topology: Topology, nodes: int) -> int:  # noqa: ARG001
    return nodes - 1


def _to_neighbours(topology: Topology, nodes: int) -> int:
    """Two a dimension; a dimension of two has one cable, one of one has none."""
    return sum(min(side - 1, 2) for side in topology.shape_of(nodes))


def _bus(topology: Topology, nodes: Nodes) -> Bus:  # noqa: ARG001
    """As fast as the slowest of the nodes."""
    slowest, latency_s = float(nodes.ports.min()), float(nodes.latency_s.max())
    return Bus(nodes.group.size, slowest, latency_s, f"{nodes.name} bus")


@dataclass(frozen=True, slots=True)
class Design:
    """What there is to know of a topology by name.

    ``build`` makes its fabric; ``keys`` are those of ``[topology]`` that
    not every topology has (shape, factor, two_way). ``links`` says how many
    links a chip needs at most when so many are joined. With ``whole_ports``
    a chip sends to any other with all its links together, else with one.
    ``most`` is how many nodes it may join.
    """

    build: Callable[[Topology, Nodes], Fabric]
    keys: tuple[str, ...] = ()
    links: Callable[[Topology, int], int] = _one
    whole_ports: bool = False
    most: int | None = None


DESIGNS = {
    "tree": Design(Tree.of, keys=("factor",), whole_ports=True),
    "bus": Design(_bus),
    "switch": Design(lambda _, of: Switch(of.ports, of.latency_s, of.label), whole_ports=True),
    "ring": Design(Grid.of, keys=("two_way",), links=_to_neighbours),
    "torus": Design(Grid.of, keys=("shape",), links=_to_neighbours),
    "mesh": Design(Grid.of, keys=("shape",), links=_to_neighbours),
    "fully_connected": Design(
        lambda _, of: FullyConnected(of.ports, of.latency_s, of.label), links=_to_all, most=2048
    ),
}
"""The names that ``topology.kind`` may have."""


class Joined(NamedTuple):
    """A fabric, and of every node the region in which it is joined, and which port it takes."""

    fabric: Fabric
    region: Ints
    port: Ints


def joined(topology: Topology, nodes: Nodes) -> list[Joined]:
    """The fabrics of a topology over some nodes, innermost first."""
    if topology.levels:
        return list(tiers_of(topology, nodes))
    count = len(nodes.ports)
    return [Joined(fabric_of(topology, nodes), np.zeros(count, dtype=np.int64), np.arange(count))]


def fabric_of(topology: Topology, nodes: Nodes) -> Fabric:
    """The one fabric of a topology without levels; its own speeds replace the nodes'."""
    count, own = len(nodes.ports), topology.bytes_per_s
    ports = nodes.ports if own is None else np.full(count, own)
    nodes = nodes.at(topology.share * ports)
    if topology.latency_s is not None:
        nodes = replace(nodes, latency_s=np.full(count, topology.latency_s))
    return DESIGNS[topology.kind].build(topology, nodes)


def tiers_of(topology: Topology, nodes: Nodes) -> Iterator[Joined]:
    """The fabric of every tier, innermost first."""
    count, below = len(nodes.ports), 1
    numbers = np.arange(count)
    for number, tier in enumerate(with_members(topology.levels, count)):
        unit = below * tier.members
        port = numbers // below * tier.rails + numbers % below * tier.rails // below
        name = nodes.name if below == 1 else f"tier {number} port"
        if not tier.bytes_per_s:  # what this kind of device has
            own = nodes.network
            if below == 1:  # alike chips
                own = (
                    float(nodes.ports[0]),
                    float(nodes.latency_s[0]),
                    float(np.max(nodes.half_bytes)),
                )
            bytes_per_s, latency_s = at_share(tier.share, *own)
            tier = replace(tier, bytes_per_s=bytes_per_s, latency_s=tier.latency_s or latency_s)
        yield Joined(_fabric(tier, count // unit, name), numbers // unit, port)
        below = unit


def with_members(levels: tuple[Tier, ...], nodes: int) -> tuple[Tier, ...]:
    """The outermost tier joins what is left, and no rails are as many as there are nodes.

    Of the nodes of a mesh of cables there may be the first ones alone.
    """
    found, below = list[Tier](), 1
    for tier in levels:
        members = tier.members or max(nodes // max(below, 1), 1)
        cables = of_part(tier.cables, members)
        found.append(replace(tier, members=members, rails=tier.rails or below, cables=cables))
        below *= members
    return tuple(found)


def sides_of(tier: Tier, members: int) -> tuple[int, ...]:
    """Of a ring, torus or mesh of so many nodes."""
    return tier.shape or near_cubic(members, 1 if tier.kind == "ring" else tier.dimensions)


def _fabric(tier: Tier, copies: int, name: str) -> Fabric:
    members = tier.members * tier.rails
    ports = np.full(copies * members, tier.bytes_per_s)
    latency_s = np.full(len(ports), tier.latency_s)

    label = partial(_numbered, name)
    if tier.kind == "switch":
        return Ports(ports, latency_s, label, members, over=tier.oversubscription)
    if tier.kind == "cables":
        return Cables(tier.cables, members, copies, tier.bytes_per_s, tier.latency_s, label)
    if tier.kind == "fully_connected":
        return FullyConnected(ports, latency_s, label, members)
    shape = sides_of(tier, members)
    where = partial(_of_copy, name) if copies > 1 else partial(named, name)
    return Grid(shape, ports, tier.latency_s, where, wrap=tier.kind != "mesh")


def _numbered(name: str, node: int) -> str:
    return f"{name}{node}"


def _of_copy(name: str, copy: int) -> str:
    return f"{copy}.{name}"
