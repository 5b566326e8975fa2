"""Nodes in tiers: eight on a switch, four of these on another one, and so on.

A message takes the innermost tier that joins its ends, and nothing else. In a
tier, a unit (a node, or a group of the tier below) has ``rails`` ports, which
its nodes share evenly, those of neighbouring numbers one port.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hardware.interconnect.cables import Cables, of_part
from hardware.interconnect.fabric import Fabric, Ints, Nodes
from hardware.interconnect.one_hop import FullyConnected, Ports
from hardware.interconnect.torus import Grid
from hardware.topology import Tier, Topology, near_cubic


class Joined(NamedTuple):
    """A fabric, and of every node the region in which it is joined, and which port it takes."""

    fabric: Fabric
    region: Ints
    port: Ints


def tiers_of(topology: Topology, nodes: Nodes) -> Iterator[Joined]:
    """The fabric of every tier, innermost first."""
    count, below = len(nodes.ports), 1
    numbers = np.arange(count)
    for number, tier in enumerate(with_members(topology.levels, count)):
        unit = below * tier.members
        port = numbers // below * tier.rails + numbers % below * tier.rails // below
        name = nodes.name if below == 1 else f"tier {number} port"
        if not tier.bytes_per_s:  # what this kind of device has
            own = (nodes.ports[0], nodes.latency_s[0]) if below == 1 else nodes.network
            tier = replace(
                tier, bytes_per_s=tier.share * own[0], latency_s=tier.latency_s or own[1]
            )
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


def _fabric(tier: Tier, copies: int, name: str) -> Fabric:
    members = tier.members * tier.rails
    ports = np.full(copies * members, tier.bytes_per_s)
    latency_s = np.full(len(ports), tier.latency_s)

    def label(node: int) -> str:
        return f"{name}{node}"

    if tier.kind == "switch":
        return Ports(ports, latency_s, label, members, over=tier.oversubscription)
    if tier.kind == "cables":
        return Cables(tier.cables, members, copies, tier.bytes_per_s, tier.latency_s, label)
    if tier.kind == "fully_connected":
        return FullyConnected(ports, latency_s, label, members)
    dimensions = 1 if tier.kind == "ring" else tier.dimensions
    shape = tier.shape or near_cubic(members, dimensions)
    where = (lambda copy: f"{copy}.{name}") if copies > 1 else (lambda _: name)
    return Grid(shape, ports, tier.latency_s, where, wrap=tier.kind != "mesh")
