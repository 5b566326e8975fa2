"""Every topology by name: how it is built, and what a spec may say of it.

To add one, write its fabric in a file of this folder and its line here: spec
files, faults, routes and the bisection's bandwidths follow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hardware.interconnect.fabric import Fabric, Nodes
from hardware.interconnect.one_hop import Bus, FullyConnected, Switch
from hardware.interconnect.tiers import Joined, tiers_of
from hardware.interconnect.torus import Grid
from hardware.interconnect.tree import Tree
from hardware.topology import Topology


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


def joined(topology: Topology, nodes: Nodes) -> list[Joined]:
    """The fabrics of a topology over some nodes, innermost first."""
    if topology.levels:
        return list(tiers_of(topology, nodes))
    count = len(nodes.ports)
    return [Joined(fabric_of(topology, nodes), np.zeros(count, dtype=np.int64), np.arange(count))]


def fabric_of(topology: Topology, nodes: Nodes) -> Fabric:
    """The one fabric of a topology without levels; its own speeds replace the nodes'."""
    count = len(nodes.ports)
    if topology.bytes_per_s is not None:
        nodes = replace(nodes, ports=np.full(count, topology.bytes_per_s))
    if topology.latency_s is not None:
        nodes = replace(nodes, latency_s=np.full(count, topology.latency_s))
    return DESIGNS[topology.kind].build(topology, nodes)
