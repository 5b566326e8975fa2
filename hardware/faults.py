"""What is wrong with a topology for the accelerators that it is to join."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from hardware.array import Device, Group
from hardware.interconnect.topologies import DESIGNS
from hardware.topology import Topology

_MEANINGS = {
    "shape": "has a shape",
    "factor": "has a factor",
    "two_way": "can have links in one direction",
}
"""Keys of ``[topology]`` that only some topologies have, and what they are for."""


def faults_of(topology: Topology, group: Group) -> Iterator[tuple[str, str]]:
    """What is wrong with a topology for these accelerators: (key, what) of every fault."""
    if topology.kind not in DESIGNS:
        yield "topology.kind", f"{topology.kind!r} is none of {', '.join(DESIGNS)}"
        return
    yield from _key_faults(topology)
    if topology.joins == "boards":
        yield from _count_faults(topology, group.units, "boards")
    else:
        for device, count in group.kinds:
            yield from _count_faults(topology, count * device.chips, f"{device.name} chips")
            yield from _link_faults(topology, device, count * device.chips)


def _key_faults(topology: Topology) -> Iterator[tuple[str, str]]:
    """Keys that are set, and mean nothing to such a topology."""
    plain = Topology(topology.kind)
    for key, meaning in _MEANINGS.items():
        if getattr(topology, key) != getattr(plain, key) and not _has(topology, key):
            those = " or ".join(
                f"a {name}" for name, design in DESIGNS.items() if key in design.keys
            )
            yield f"topology.{key}", f"only {those} {meaning}, not a {topology.kind}"


def _has(topology: Topology, key: str) -> bool:
    return key in DESIGNS[topology.kind].keys


def _count_faults(topology: Topology, nodes: int, what: str) -> Iterator[tuple[str, str]]:
    shape, most = topology.shape, DESIGNS[topology.kind].most
    if shape and _has(topology, "shape") and prod(shape) != nodes:
        yield "topology.shape", f"{list(shape)} is {prod(shape)} nodes; there are {nodes} {what}"
    if most is not None and nodes > most:
        words = topology.kind.replace("_", " ")
        yield "topology.kind", f"{nodes} {what}; at most {most} {words}"


def _link_faults(topology: Topology, device: Device, chips: int) -> Iterator[tuple[str, str]]:
    if device.links is None:
        if topology.bytes_per_s is None:
            yield (
                "topology.joins",
                f'{device.name} has no links between chips; give it links or join "boards"',
            )
        return
    needed = DESIGNS[topology.kind].links(topology, chips)
    if needed > device.links.per_chip:
        yield (
            "topology.kind",
            f"a {topology.kind} of {chips} chips needs {needed} links per chip; "
            f"{device.name} has {device.links.per_chip}",
        )
