"""Who sends to whom in a group at once, by members' numbers, and what links then carry."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardware import Wires
from hardware.interconnect.torus import Grid
from simulator.collectives.quotient import Quotient
from simulator.collectives.sections import Ends
from simulator.engine.jobs import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Messages:
    """From every source to its target.

    ``mirrored`` ones are the first member's alone: what it sends to member d,
    every member i sends to i XOR d. ``everyone`` sends to everyone else (then
    sources and targets are not asked for).
    """

    sources: Ints
    targets: Ints
    mirrored: bool = False
    everyone: bool = False

    def of(self, members: int) -> Ends:
        """Sources and targets in a group of so many, a power of two where they are mirrored."""
        if not self.mirrored:
            return self.sources, self.targets
        everybody = np.arange(members)
        others = [everybody ^ distance for distance in self.targets.tolist()]
        return np.tile(everybody, len(others)), np.concatenate(others)


NOBODY = np.zeros(0, dtype=np.int64)
EVERYONE = Messages(NOBODY, NOBODY, everyone=True)
"""From every member to all others."""


def exchange(distance: int) -> Messages:
    """Every member swaps with the one whose number differs in that bit."""
    return Messages(np.zeros(1, dtype=np.int64), np.array([distance]), mirrored=True)


def following(members: Ints, axis: int, *, both_ways: bool) -> Messages:
    """Every member sends to the next along an axis, the last to the first; or to both sides."""
    sources, targets = [members], [np.roll(members, -1, axis)]
    if both_ways:
        sources, targets = [members, members], [targets[0], np.roll(members, 1, axis)]
    return Messages(np.concatenate(sources).ravel(), np.concatenate(targets).ravel())


@dataclass(frozen=True, slots=True, eq=False)
class Carried:
    """What messages load: flows on the links that ``on`` numbers (None: the array's own).

    ``far`` are ends of messages of which one has the longest latency, however
    long a hop or a port's latency is.
    """

    flows: Floats
    far: Ends
    on: Quotient | None

    @property
    def nbytes(self) -> int:
        """Of its arrays."""
        return self.flows.nbytes + 2 * self.far[0].nbytes


def add(parts: list[tuple[Carried, float]]) -> Carried:
    """Several at once, by weights; all on the same links."""
    flows = np.zeros_like(parts[0][0].flows)
    for carried, weight in parts:
        flows += carried.flows * weight
    ends = zip(*(carried.far for carried, _ in parts), strict=True)
    sources, targets = (np.concatenate(side) for side in ends)
    return Carried(flows, (sources, targets), parts[0][0].on)


def carry(wires: Wires, sources: Ints, targets: Ints) -> Carried:
    """Messages between cores, counted one by one."""
    a, b = sources.ravel(), targets.ravel()
    flows = np.zeros(len(wires.bandwidth))
    for subnet, chosen in wires.by_subnet(a, b):
        nodes = subnet.node[a[chosen]], subnet.node[b[chosen]]
        flows[subnet.links] += subnet.fabric.loads(*nodes, np.ones(len(chosen)))
    return Carried(flows, farthest(wires, a, b), None)


def farthest(wires: Wires, sources: Ints, targets: Ints) -> Ends:
    """A few of some messages between cores, of which one has the longest latency of all.

    On a grid those with the most hops have it; elsewhere it depends on the
    kind of device that sends.
    """
    found = [NOBODY]
    for subnet, chosen in wires.by_subnet(sources, targets):
        a, b = sources[chosen], targets[chosen]
        if isinstance(subnet.fabric, Grid):
            hops = subnet.fabric.hops(subnet.node[a], subnet.node[b])
            found.append(chosen[[int(hops.argmax())]])
        else:
            found.append(chosen[np.unique(wires.kind[a], return_index=True)[1]])
    far = np.concatenate(found)
    return sources[far], targets[far]
