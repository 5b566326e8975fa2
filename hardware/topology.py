"""How the boards or chips of an array are joined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hardware.array import Device, Group

GRIDS = ("ring", "torus", "mesh")
"""Topologies that join nodes to their neighbours along one to three dimensions."""
MOST_FULLY_CONNECTED = 2048


@dataclass(frozen=True, slots=True)
class Topology:
    """Wires of an array; without any it is the published tree.

    ``joins`` says whether nodes are boards (links have their network ports'
    bandwidth) or chips (inter-chip links; one such topology per kind of
    device, kinds joined through the boards' ports by a switch). ``shape``
    belongs to tori and meshes, ``factor`` to trees: how much a split's link
    grows per level towards the root (2: every accelerator has its own
    bandwidth at every level; 1: all links alike). A ring with ``two_way``
    false has links in one direction only. ``bytes_per_s`` and ``latency_s``
    replace the devices' values.
    """

    kind: str = "tree"
    joins: str = "boards"
    shape: tuple[int, ...] = ()
    factor: float = 2.0
    two_way: bool = True
    bytes_per_s: float | None = None
    latency_s: float | None = None

    def shape_of(self, nodes: int) -> tuple[int, ...]:
        """Sides of a ring, torus or mesh of so many nodes."""
        if self.kind == "ring":
            return (nodes,)
        return self.shape or near_square(nodes)


PUBLISHED = Topology()
"""The papers' tree: every accelerator has its own bandwidth at every level."""


def near_square(count: int) -> tuple[int, int]:
    """The two factors of ``count`` that are nearest to each other, the larger one first."""
    smaller = max(d for d in range(1, int(count**0.5) + 1) if count % d == 0)
    return count // smaller, smaller


def faults_of(topology: Topology, group: Group) -> Iterator[tuple[str, str]]:
    """What is wrong with a topology for these accelerators: (key, what) of every fault."""
    kind = topology.kind
    if topology.shape and kind not in ("torus", "mesh"):
        yield "topology.shape", f"only a torus or a mesh has a shape, not a {kind}"
    if topology.factor != 2.0 and kind != "tree":
        yield "topology.factor", f"only a tree has a factor, not a {kind}"
    if not topology.two_way and kind != "ring":
        yield "topology.two_way", f"only a ring can have links in one direction, not a {kind}"
    if topology.joins == "boards":
        yield from _shape_faults(topology, group.size, "boards")
    else:
        for device, count in group.kinds:
            yield from _shape_faults(topology, count * device.chips, f"{device.name} chips")
            yield from _link_faults(topology, device, count * device.chips)


def _shape_faults(topology: Topology, nodes: int, what: str) -> Iterator[tuple[str, str]]:
    shape = topology.shape
    if shape and topology.kind in ("torus", "mesh") and prod(shape) != nodes:
        yield "topology.shape", f"{list(shape)} is {prod(shape)} nodes; there are {nodes} {what}"
    if topology.kind == "fully_connected" and nodes > MOST_FULLY_CONNECTED:
        yield "topology.kind", f"{nodes} {what}; at most {MOST_FULLY_CONNECTED} fully connected"


def _link_faults(topology: Topology, device: Device, chips: int) -> Iterator[tuple[str, str]]:
    if device.links is None:
        if topology.bytes_per_s is None:
            yield (
                "topology.joins",
                f'{device.name} has no links between chips; give it links or join "boards"',
            )
        return
    needed = _neighbours(topology, chips)
    if needed > device.links.per_chip:
        yield (
            "topology.kind",
            f"a {topology.kind} of {chips} chips needs {needed} links per chip; "
            f"{device.name} has {device.links.per_chip}",
        )


def _neighbours(topology: Topology, nodes: int) -> int:
    """Links a chip needs at most; a dimension of two has one cable."""
    if topology.kind == "fully_connected":
        return nodes - 1
    if topology.kind in GRIDS:
        return sum(min(side - 1, 2) for side in topology.shape_of(nodes))
    return 1
