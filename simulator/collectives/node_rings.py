"""Rings through nodes with unlike numbers of members, as where a group fills a node and a half.

NCCL makes as many rings as the node with fewest members allows. Each visits all members of a node
before it leaves, and leaves every node from another member, through that one's network port. Of
eight members on one node and four on another there are four rings, each of a quarter of the tensor:

    all-reduce of 12 x 1 GB: 2 (11/12) 1 GB / 4 through a port of 50 GB/s, 9.2 ms

A piece waits for a message's latency at each of the m - 1 ways between m nodes, and inside for as
long as the members of the largest node by themselves, which pass on what comes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.collectives.cache import cached
from simulator.collectives.groups import Groups, Rows, groups_of
from simulator.collectives.messages import CollectivePhase, Timed, flows_of
from simulator.collectives.offers import AtOnce, cheapest, flat_offers, tiers_of
from simulator.collectives.symmetry import byte_s
from simulator.engine.jobs import Ints, Job, Load

NODE_RINGS = "node-rings"
NODES = 1
"""Of a core's units, the one that is a node: chips come before."""


@dataclass(frozen=True, slots=True, eq=False)
class Rings:
    """So many rings at once through so many ``nodes``: what a flow of each loads.

    ``far`` are ends of its messages between nodes, ``largest`` the members of the largest one.
    """

    number: int
    nodes: int
    load: Load
    far: tuple[Ints, Ints]
    largest: Ints

    @property
    def nbytes(self) -> int:
        """Of its arrays."""
        return self.load.nbytes + sum(ends.nbytes for ends in (*self.far, self.largest))


def node_rings(groups: Groups, collective: str, size_bytes: float) -> AtOnce | str:
    """All rings as one job, or why there are none; a broadcast goes along each, chunk by chunk."""
    if collective == "all-to-all":
        return f"{NODE_RINGS} do not do all-to-all"
    topology = groups.wires.topology
    if len(topology.levels) < 2 or topology.joins != "chips":
        return f"{NODE_RINGS} need nodes of several chips (topology.levels)"
    if tiers_of(groups, first_only=False) is not None:
        return f"{NODE_RINGS} are for nodes with unlike numbers of members"
    rings = cached(NODE_RINGS, groups.key, lambda: _rings(groups))
    n, wires = groups.size, groups.wires
    inside = groups_of(wires, Rows(np.atleast_2d(rings.largest)))
    best = cheapest(flat_offers(inside, "all-gather", size_bytes))
    inside_s = sum(one.latencies_s(size_bytes) for one in best.timed)
    step_s = ((rings.nodes - 1) * wires.message_latency_s(*rings.far) + inside_s) / (n - 1)
    laps, stages = (2 if collective == "all-reduce" else 1), 0
    share, steps = laps * (n - 1) / n / rings.number, laps * (n - 1)
    if collective == "broadcast":
        share, steps, stages = 1 / rings.number, 1, n - 2
    phase = CollectivePhase(rings.load, rings.far, share, steps, stages)
    timed = Timed(phase, byte_s(rings.load, wires), step_s)
    wait_s = timed.wait_s(size_bytes)
    name = f"{collective} {NODE_RINGS}"
    job = Job(name, rings.load, share * size_bytes, wait_s, steps)
    return AtOnce(job, timed.alone_ps(size_bytes), NODE_RINGS)


def _rings(groups: Groups) -> Rings:
    """The rings of all groups, which have equally many: from member to member of each node."""
    nodes = [_by_node(groups.wires.units[NODES][row], row) for row in groups.rows]
    number = min(len(members) for group in nodes for members in group)
    ends = [_ends(group, number) for group in nodes]
    sources, targets = (np.concatenate(side) for side in zip(*ends, strict=True))
    where = groups.wires.units[NODES]
    out = where[sources] != where[targets]
    load = groups.loaded(flows_of(groups.wires, sources, targets))
    far = sources[out], targets[out]
    return Rings(number, max(map(len, nodes)), load, far, max(nodes[0], key=len))


def _by_node(node: Ints, members: Ints) -> list[Ints]:
    """Members of each node, in the order in which nodes come."""
    found: dict[int, list[int]] = {}
    for at, member in zip(node.tolist(), members.tolist(), strict=True):
        found.setdefault(at, []).append(member)
    return [np.array(each) for each in found.values()]


def _ends(nodes: list[Ints], number: int) -> tuple[Ints, Ints]:
    """Who sends to whom: ring k enters a node of m members at member k m / number."""
    orders = [
        np.concatenate([np.roll(each, -(k * len(each) // number)) for each in nodes])
        for k in range(number)
    ]
    sources = np.concatenate(orders)
    return sources, np.concatenate([np.roll(order, -1) for order in orders])
