"""What is wrong with a topology for the accelerators that it is to join."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from math import prod

from hardware.array import Group
from hardware.device import Device
from hardware.interconnect.cables import MOST_NODES, cable_faults
from hardware.interconnect.topologies import DESIGNS, sides_of, with_members
from hardware.topology import Tier, Topology, near_square

_MEANINGS = {
    "shape": "has a shape",
    "factor": "has a factor",
    "two_way": "can have links in one direction",
}
"""Keys of ``[topology]`` that only some topologies have, and what they are for."""


def faults_of(topology: Topology, group: Group) -> Iterator[tuple[str, str]]:
    """What is wrong with a topology for these accelerators: (key, what) of every fault."""
    if topology.levels:
        yield from _level_faults(topology, group)
        return
    if topology.kind not in DESIGNS:
        yield "topology.kind", f"{topology.kind!r} is none of {', '.join(DESIGNS)}"
        return
    yield from _key_faults(topology)
    if topology.joins == "boards":
        yield from _count_faults(topology, group.units, "boards")
    else:
        for device, count in group.kinds:
            chips = f"{device.name} chips"
            if len(group.kinds) > 1:
                chips += f", each kind of device has a {topology.kind} of its own"
            yield from _count_faults(topology, count * device.chips, chips)
            yield from _link_faults(topology, device, count * device.chips)


def _key_faults(topology: Topology) -> Iterator[tuple[str, str]]:
    """Keys that are set, and mean nothing to such a topology."""
    plain = Topology(topology.kind)
    for key, meaning in _MEANINGS.items():
        if getattr(topology, key) != getattr(plain, key) and not _has(topology, key):
            those = " or ".join(
                f"a {name}" for name, design in DESIGNS.items() if key in design.keys
            )
            without = "; topology.shape = [] takes it away" if key == "shape" else ""
            yield f"topology.{key}", f"only {those} {meaning}, not a {topology.kind}{without}"


def _has(topology: Topology, key: str) -> bool:
    return key in DESIGNS[topology.kind].keys


def _count_faults(topology: Topology, nodes: int, what: str) -> Iterator[tuple[str, str]]:
    shape, most = topology.shape, DESIGNS[topology.kind].most
    if shape and _has(topology, "shape") and prod(shape) != nodes:
        fits = f"topology.shape = [] takes {list(near_square(nodes))}"
        yield (
            "topology.shape",
            f"{list(shape)} is {prod(shape)} nodes; there are {nodes} {what}; {fits}",
        )
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
    yield from _too_few_links("topology.kind", topology, device, chips)


def _too_few_links(
    key: str, topology: Topology, device: Device, chips: int
) -> Iterator[tuple[str, str]]:
    needed = DESIGNS[topology.kind].links(topology, chips)
    if device.links is not None and needed > device.links.per_chip:
        yield (
            key,
            f"a {topology.kind} of {chips} chips needs {needed} links per chip; "
            f"{device.name} has {device.links.per_chip}",
        )


def _too_many_cables(key: str, tier: Tier, device: Device) -> Iterator[tuple[str, str]]:
    for node, ends in Counter(node for cable in tier.cables for node in cable).most_common(1):
        if device.links is not None and ends > device.links.per_chip:
            what = f"{device.name} has {device.links.per_chip} links per chip"
            yield key, f"node {node} has {ends} cables; {what}"


def _level_faults(topology: Topology, group: Group) -> Iterator[tuple[str, str]]:
    """What is wrong with tiers: what they do not read, and counts that do not come out."""
    plain = Topology()
    for key in ("shape", "factor", "two_way"):
        if getattr(topology, key) != getattr(plain, key):
            yield f"topology.{key}", "is of a topology without levels; a level has its own shape"
    for key, value in (("bandwidth", topology.bytes_per_s), ("latency", topology.latency_s)):
        if value is not None:
            yield f"topology.{key}", f"every level has its own; write topology.levels.0.{key}"
    for number, tier in enumerate(topology.levels):
        yield from _tier_faults(f"topology.levels.{number}", tier)
        if not tier.bytes_per_s and topology.joins == "boards":
            yield f"topology.levels.{number}.bandwidth", 'is missing; or take joins = "chips"'
    if topology.levels[0].bytes_per_s == 0 and topology.joins == "chips":
        for device, _ in group.kinds:
            if device.links is None:
                yield "topology.levels.0.bandwidth", f"is missing: {device.name} has no links"
    if any(not tier.members for tier in topology.levels[:-1]):
        number = next(i for i, tier in enumerate(topology.levels) if not tier.members)
        yield (
            f"topology.levels.{number}.members",
            "only the innermost and the outermost level may leave it out; of several kinds of "
            "devices the outermost alone, as all have nodes of one size",
        )
        return
    counts = [(group.units, "boards")]
    if topology.joins == "chips":
        counts = [(count * device.chips, f"{device.name} chips") for device, count in group.kinds]
    for nodes, what in counts:
        yield from _tiers_faults(topology, nodes, what)
    tier = topology.levels[0]
    if topology.joins == "chips" and not tier.bytes_per_s:
        for device, count in group.kinds:
            inner = with_members(topology.levels, count * device.chips)[0]
            if tier.kind == "cables":
                yield from _too_many_cables("topology.levels.0.cables", inner, device)
                continue
            shaped = Topology(tier.kind, shape=sides_of(tier, inner.members))
            yield from _too_few_links("topology.levels.0.kind", shaped, device, inner.members)


def _tier_faults(key: str, tier: Tier) -> Iterator[tuple[str, str]]:
    if tier.kind != "switch":
        if tier.oversubscription != 1:
            yield f"{key}.oversubscription", f"only a switch has one, not a {tier.kind}"
        if tier.rails != 1:
            yield f"{key}.rails", f"only a switch has rails, not a {tier.kind}"
        if tier.reduces:
            yield f"{key}.reduces", f"only a switch can sum, not a {tier.kind}"
    if tier.shape and tier.kind not in ("torus", "mesh"):
        without = f"{key}.shape = [] takes it away"
        yield f"{key}.shape", f"only a torus or mesh has a shape, not a {tier.kind}; {without}"
    if tier.dimensions != 2 and tier.kind not in ("torus", "mesh"):
        yield f"{key}.dimensions", f"only a torus or mesh has dimensions, not a {tier.kind}"
    if tier.shape and tier.dimensions not in (2, len(tier.shape)):
        yield f"{key}.dimensions", f"{list(tier.shape)} has {len(tier.shape)} sides; leave it out"


def _cable_faults(key: str, tier: Tier) -> Iterator[tuple[str, str]]:
    if tier.kind == "cables" and not tier.cables and tier.members > 1:
        yield f"{key}.cables", 'are missing; write them like ["0-1", "0-3 x2"]'
    elif tier.cables and tier.kind != "cables":
        yield f"{key}.cables", f'are of the kind "cables", not of a {tier.kind}'
    for what in cable_faults(tier.cables, tier.members) if tier.cables else ():
        yield f"{key}.cables", what


def _tiers_faults(topology: Topology, nodes: int, what: str) -> Iterator[tuple[str, str]]:
    below = 1
    for number, tier in enumerate(with_members(topology.levels, nodes)):
        key = f"topology.levels.{number}"
        if below > 1 and below % tier.rails:
            yield f"{key}.rails", f"{below} {what} do not share {tier.rails} rails evenly"
        if below == 1 and tier.rails > 1:
            yield f"{key}.rails", "a single node has one port; give it more bandwidth instead"
        if tier.shape and prod(tier.shape) != tier.members:
            without = f"{key}.shape = [] takes the squarest"
            sides = list(tier.shape)
            yield f"{key}.shape", f"{sides} is {prod(sides)}, not {tier.members}; {without}"
        yield from _cable_faults(key, tier)
        most = MOST_NODES if tier.kind == "cables" else DESIGNS[tier.kind].most
        if most is not None and tier.members > most:
            yield f"{key}.members", f"{tier.members} units; at most {most} {tier.kind}"
        below *= tier.members
    if below != nodes:
        yield "topology.levels", f"join {below} {what}; there are {nodes}"
