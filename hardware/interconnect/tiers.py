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

from hardware.interconnect.cables import Cables
from hardware.interconnect.fabric import Fabric, Floats, Ints, Level, Nodes, tally
from hardware.interconnect.one_hop import FullyConnected
from hardware.interconnect.torus import Grid
from hardware.topology import Tier, Topology, near_cubic


class Joined(NamedTuple):
    """A fabric, and of every node the region in which it is joined, and which port it takes."""

    fabric: Fabric
    region: Ints
    port: Ints


class SwitchTier:
    """Switches alike, each with so many ports, up and down.

    Where a switch is oversubscribed, its own links are one more, which every
    message through it crosses: as fast as all its ports together, divided by
    the oversubscription.
    """

    has_places = False

    def __init__(self, tier: Tier, copies: int, name: str) -> None:
        self._members = tier.members * tier.rails
        self._ports = ports = copies * self._members
        self._over = tier.oversubscription
        self.reduces = tier.reduces
        self._name = name
        through = self._members * tier.bytes_per_s / self._over
        inside = np.full(copies if self._over > 1 else 0, through)
        self.bandwidth = np.concatenate([np.full(2 * ports, tier.bytes_per_s), inside])
        self.latency_s = np.zeros(len(self.bandwidth))
        self.latency_s[:ports] = tier.latency_s

    def route(self, source: int, target: int) -> list[int]:  # noqa: D102
        inside = [2 * self._ports + source // self._members] if self._over > 1 else []
        return [source, *inside, self._ports + target]

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:  # noqa: D102
        links = [sources, self._ports + targets]
        if self._over > 1:
            links.append(2 * self._ports + sources // self._members)
        return tally(np.concatenate(links), np.tile(flows, len(links)), len(self.bandwidth))

    def latencies(self, sources: Ints, targets: Ints) -> Floats:  # noqa: ARG002, D102
        return self.latency_s[sources]

    def levels(self) -> Iterator[Level]:  # noqa: D102
        ports = np.arange(self._ports)
        yield Level(ports, self._ports + ports)
        if self._over > 1:
            yield Level(2 * self._ports + ports // self._members)

    def names(self) -> list[str]:  # noqa: D102
        ports = [f"{self._name}{i} {way}" for way in ("up", "down") for i in range(self._ports)]
        inside = len(self.bandwidth) - 2 * self._ports
        return ports + [f"{self._name}s' switch {i}" for i in range(inside)]

    def injection(self, first: range, second: range) -> float:
        """The side's ports together, and its share of what the switch carries both ways."""
        ports = float(self.bandwidth[first.start : first.stop].sum())
        if self._over <= 1:
            return ports
        inside = float(self.bandwidth[2 * self._ports + first.start // self._members])
        return min(ports, inside * len(first) / (len(first) + len(second)))


def tiers_of(topology: Topology, nodes: Nodes) -> Iterator[Joined]:
    """The fabric of every tier, innermost first."""
    count, below = len(nodes.ports), 1
    numbers = np.arange(count)
    for number, tier in enumerate(with_members(topology.levels, count)):
        unit = below * tier.members
        port = numbers // below * tier.rails + numbers % below * tier.rails // below
        name = nodes.name if below == 1 else f"tier {number} port"
        yield Joined(_fabric(tier, count // unit, name), numbers // unit, port)
        below = unit


def with_members(levels: tuple[Tier, ...], nodes: int) -> tuple[Tier, ...]:
    """The outermost tier joins what is left, and no rails are as many as there are nodes."""
    found, below = list[Tier](), 1
    for tier in levels:
        members = tier.members or max(nodes // max(below, 1), 1)
        found.append(replace(tier, members=members, rails=tier.rails or below))
        below *= members
    return tuple(found)


def _fabric(tier: Tier, copies: int, name: str) -> Fabric:
    if tier.kind == "switch":
        return SwitchTier(tier, copies, name)
    if tier.kind == "cables":
        speeds = tier.bytes_per_s, tier.latency_s
        return Cables(tier.cables, tier.members, copies, *speeds, lambda node: f"{name}{node}")
    ports = np.full(copies * tier.members, tier.bytes_per_s)
    if tier.kind == "fully_connected":
        latency_s = np.full(len(ports), tier.latency_s)
        return FullyConnected(ports, latency_s, lambda i: f"{name}{i}", tier.members)
    dimensions = 1 if tier.kind == "ring" else tier.dimensions
    shape = tier.shape or near_cubic(tier.members, dimensions)
    where = (lambda copy: f"{copy}.{name}") if copies > 1 else (lambda _: name)
    return Grid(shape, ports, tier.latency_s, where, wrap=tier.kind != "mesh")
