"""Rings through nodes with unlike numbers of members, as where a group fills a node and a half.

NCCL makes as many rings as the node with fewest members allows. Each visits all members of a node
before it leaves, and leaves every node from another member, through that one's network port. Of
eight members on one node and four on another there are four rings, each of a quarter of the tensor:

    all-reduce of 12 x 1 GB: 2 (11/12) 1 GB / 4 through a port of 50 GB/s, 9.2 ms

Chunks pass through nodes and between them as through a pipeline. Of each a piece waits for a
message's latency at each of the m - 1 ways between m nodes, and inside for as long as in an
all-gather of the largest node's members by themselves, who copy a piece of their own, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulator.collectives.cache import cached
from simulator.collectives.groups import Groups, Rows, groups_of
from simulator.collectives.offers import Ready, cheapest, flat_offers, pipelined_s, tiers_of
from simulator.collectives.symmetry import byte_s, summed
from simulator.engine.jobs import Ints, Job, Load
from simulator.engine.picoseconds import whole_ps

NODE_RINGS = "node-rings"
NODES = 1
"""Of a core's units, the one that is a node: chips come before."""


@dataclass(frozen=True, slots=True, eq=False)
class Rings:
    """So many rings at once through so many ``nodes``: what a flow of each loads.

    That is ``inside`` nodes and ``between`` them, where messages have the ends ``far``.
    ``largest`` are the members of the largest node.
    """

    number: int
    nodes: int
    inside: Load
    between: Load
    far: tuple[Ints, Ints]
    largest: Ints

    @property
    def nbytes(self) -> int:
        """Of its arrays."""
        arrays = sum(ends.nbytes for ends in (*self.far, self.largest))
        return self.inside.nbytes + self.between.nbytes + arrays


def node_rings(groups: Groups, collective: str, size_bytes: float) -> Ready | str:
    """All rings as one job, or why there are none; a broadcast goes along each, chunk by chunk."""
    if collective == "all-to-all":
        return f"{NODE_RINGS} do not do all-to-all"
    topology = groups.wires.topology
    if len(topology.levels) < 2 or topology.joins != "chips":
        return f"{NODE_RINGS} need nodes of several chips (topology.levels)"
    if tiers_of(groups, first_only=False) is not None:
        return f"{NODE_RINGS} are for nodes with unlike numbers of members"
    rings = cached(NODE_RINGS, groups.key, lambda: _rings(groups))
    if rings.nodes < 2:
        return f"{NODE_RINGS} are for members on several nodes"
    n, wires = groups.size, groups.wires
    laps = 2 if collective == "all-reduce" else 1
    around = 1.0 if collective == "broadcast" else (n - 1) / n
    lap_bytes = around * size_bytes / rings.number
    members = groups_of(wires, Rows(np.atleast_2d(rings.largest)))
    alone = cheapest(flat_offers(members, "all-gather", size_bytes)).timed
    inside_s = sum(one.latencies_s(size_bytes) for one in alone)
    copied_s = sum(one.wait_s(size_bytes) for one in alone) - inside_s
    loads = (rings.inside, rings.between)
    near_s, far_s = (byte_s(load, wires) * lap_bytes for load in loads)
    waits_s = [inside_s, (rings.nodes - 1) * wires.message_latency_s(*rings.far)]
    together = summed([(load, 1.0) for load in loads])
    busiest_s = byte_s(together, wires) * laps * lap_bytes
    whole_s = pipelined_s([near_s + copied_s, far_s] * laps, waits_s * laps, busiest_s)
    wait_s, steps = whole_s - busiest_s, laps * (n - 1)
    job = Job(f"{collective} {NODE_RINGS}", together, laps * lap_bytes, wait_s, steps)
    return Ready((job,), whole_ps(busiest_s) + whole_ps(wait_s), NODE_RINGS)


def _rings(groups: Groups) -> Rings:
    """The rings of all groups, which have equally many: from member to member of each node."""
    nodes = [_by_node(groups.wires.units[NODES][row], row) for row in groups.rows]
    number = min(len(members) for group in nodes for members in group)
    ends = [_ends(group, number) for group in nodes]
    sources, targets = (np.concatenate(side) for side in zip(*ends, strict=True))
    where = groups.wires.units[NODES]
    out = where[sources] != where[targets]
    inside, between = (
        groups.loaded(groups.wires.loads(sources[some], targets[some])) for some in (~out, out)
    )
    far = sources[out], targets[out]
    largest = max((members for group in nodes for members in group), key=len)
    return Rings(number, max(map(len, nodes)), inside, between, far, largest)


def _by_node(node: Ints, members: Ints) -> list[Ints]:
    """Members of each node, in the order in which nodes come."""
    found: dict[int, list[int]] = {}
    for at, member in zip(node.tolist(), members.tolist(), strict=True):
        found.setdefault(at, []).append(member)
    return [np.array(each) for each in found.values()]


def _ends(nodes: list[Ints], number: int) -> tuple[Ints, Ints]:
    """Who sends to whom: ring k enters a node of m members at member k m / number.

    From there it goes to both sides in turn (0 1 7 2 6 3 5 4): where all are linked, rings of
    unlike beginnings take unlike links.
    """
    orders = [
        np.concatenate([_zigzag(each, k * len(each) // number) for each in nodes])
        for k in range(number)
    ]
    sources = np.concatenate(orders)
    return sources, np.concatenate([np.roll(order, -1) for order in orders])


def _zigzag(members: Ints, first: int) -> Ints:
    """All members, from ``first`` on to both sides in turn."""
    steps = np.arange(len(members))
    found: Ints = members[
        (first + np.where(steps % 2, (steps + 1) // 2, -steps // 2)) % len(members)
    ]
    return found
