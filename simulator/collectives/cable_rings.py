"""Rings and chains on cables between nodes: as many rings at once as cables allow.

NCCL looks for such rings on a DGX-1: of its eight GPUs three rings, each both ways,
share no cable, and the tensor is cut into six parts. Where members cannot be put in
a ring, as five of them there, sums go along a chain and back, on one cable of each
pair, which is what is measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple, cast

import numpy as np

from hardware import Wires
from hardware.interconnect.cables import Cables
from hardware.interconnect.routing import Subnet
from hardware.topology import Tier
from simulator.collectives.cache import cached
from simulator.collectives.groups import Groups
from simulator.collectives.messages import Carried, Ends, Pattern, following, phase_of
from simulator.engine.jobs import Floats, Ints

Order = tuple[int, ...]
Multigraph = tuple[tuple[tuple[int, int], int], ...]
"""Pairs of nodes, the lower number first, with how many cables they have."""


class Strung(NamedTuple):
    """Members on cables: so many rings at once, or none and a chain."""

    rings: int
    flows: Floats
    far: Ends

    @property
    def nbytes(self) -> int:
        """Of its arrays."""
        return self.flows.nbytes


def strung(wires: Wires, rows: Ints) -> Strung | None:
    """What groups of cores load, all in rings or all in chains; None where cables do not join them.

    One flow of each ring goes each way (of two members there is one way). Groups must
    have equally many rings.
    """
    joining = _joining(wires, rows)
    if len(joining) != 1 or not isinstance(joining[0].fabric, Cables):
        return None
    (subnet,) = joining
    fabric = joining[0].fabric
    graph = tuple(
        sorted((pair, len(links)) for pair, links in fabric.links.items() if pair[0] < pair[1])
    )
    found = [_rings(graph, tuple((row % fabric.size).tolist())) for row in subnet.node[rows]]
    if len({len(rings) for rings, _ in found}) > 1 or not all(r or c for r, c in found):
        return None
    flows = np.zeros(len(wires.bandwidth))
    for row, (rings, chain) in zip(subnet.node[rows], found, strict=True):
        links = flows[subnet.links][fabric.shifted(int(row[0])) :]
        for pair in _used(fabric, rings, chain):
            links[pair] += 1
    rings, chain = found[0]
    near = np.isin(subnet.node[rows[0]] % fabric.size, (rings[0] if rings else chain)[:2])
    return Strung(len(rings), flows, (rows[0, near][:1], rows[0, near][1:]))


def tier_of(wires: Wires, rows: Ints) -> Tier | None:
    """The tier that joins the members of each group, if each has a port of its own.

    Each kind of device has a subnet of its own there.
    """
    found = _joining(wires, rows)
    return found[0].tier if found and all(one.tier == found[0].tier for one in found) else None


def _joining(wires: Wires, rows: Ints) -> list[Subnet]:
    """The nearest subnets that join all members of each group, each with a port of its own."""
    found = list[Subnet]()
    for subnet in wires.subnets:
        region, node = subnet.region[rows], np.sort(subnet.node[rows])
        joined = (region[:, :1] >= 0).ravel() & (region == region[:, :1]).all(axis=1)
        if joined.any():
            if (np.diff(node[joined]) <= 0).any():
                return []
            found.append(subnet)
            rows = rows[~joined]
        if not len(rows):
            return found
    return []


def _used(fabric: Cables, rings: Sequence[Order], chain: Order) -> Iterator[int]:
    """Links of the first copy that rings take, both ways, each its own; or a chain."""
    taken = Counter[tuple[int, int]]()
    for order in rings:
        pairs = list(zip(order, (*order[1:], order[0]), strict=True))
        for a, b in pairs[: 1 if len(order) == 2 else None]:
            for way in ((a, b), (b, a)):
                yield fabric.links[way][taken[way]]
                taken[way] += 1
    for a, b in pairwise(chain):
        yield fabric.links[a, b][0]
        yield fabric.links[b, a][0]


def _rings(graph: Multigraph, members: Order) -> tuple[tuple[Order, ...], Order]:
    """As many rings of all members as share no cable, or else a chain of all (none: ())."""
    cables = Counter({pair: n for pair, n in graph if set(pair) <= set(members)})
    if len(members) == 2:
        return (members,) * cables[min(members), max(members)], ()
    cycles = [order for order in _paths(cables, members, members[:1]) if _joined(cables, order)]
    most = min((sum(n for pair, n in cables.items() if m in pair) // 2 for m in members), default=0)
    for number in range(most, 0, -1):
        if packed := _packed(cables, cycles, number):
            return packed, ()
    for start in members:
        if chain := next(_paths(cables, members, (start,)), None):
            return (), chain
    return (), ()


def _pair(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _joined(cables: Counter[tuple[int, int]], order: Order) -> bool:
    """Whether the last is joined to the first; of both directions round, one is taken."""
    return order[1] < order[-1] and cables[_pair(order[-1], order[0])] > 0


def _paths(cables: Counter[tuple[int, int]], members: Order, order: Order) -> Iterator[Order]:
    """Ways through all members, each next one joined to the last."""
    if len(order) == len(members):
        yield order
        return
    for member in members:
        if member not in order and cables[_pair(order[-1], member)]:
            yield from _paths(cables, members, (*order, member))


def _packed(
    cables: Counter[tuple[int, int]], cycles: Sequence[Order], number: int
) -> tuple[Order, ...] | None:
    """So many rings, which may be alike, that together take no more cables than there are."""
    if not number:
        return ()
    for i, order in enumerate(cycles):
        used = Counter(_pair(a, b) for a, b in zip(order, (*order[1:], order[0]), strict=True))
        if used <= cables and (rest := _packed(cables - used, cycles[i:], number - 1)) is not None:
            return (order, *rest)
    return None


def one_group(groups: Groups) -> str | None:
    """What one to many is not of: groups that run together."""
    return None if groups.count == 1 else f"is of one group, not of {groups.count} at once"


def cables(groups: Groups) -> str | None:
    """What rings on cables need that is not there."""
    if _strung(groups) is not None:
        return None
    return "needs members on cables (topology.levels), as many rings for all"


def summing_switch(groups: Groups) -> str | None:
    """What sums in a switch need that is not there."""
    if reduces(groups):
        return None
    return "needs a switch that sums (reduces), with a port for each member"


def _strung(groups: Groups) -> Strung | None:
    return cached("cables", groups.key, lambda: strung(groups.wires, groups.rows))


def reduces(groups: Groups) -> float:
    """The part of their ports' bandwidth at which a switch sums what members send; 0: none.

    Of members on one switch, each with a port of its own.
    """
    tier = tier_of(groups.wires, groups.rows)
    return tier.reduces if tier else 0.0


def cable_rings(groups: Groups) -> Pattern:
    """Rings on cables of their own, each both ways, or a chain (``Strung``).

    Of two members a cable is a ring. Along a chain an all-reduce's sums come to its end and go
    back: both ways of a cable carry all once, piece behind piece. An end's own piece alone stays
    there in a reduce-scatter or an all-gather: its cable carries the n - 1 others.
    """
    n, found = groups.size, cast("Strung", _strung(groups))  # there is: a rule of the algorithm
    carried = Carried(groups.loaded(found.flows), found.far)
    ways = found.rings * (2 if n > 2 else 1) or 1
    return (phase_of(carried, (n - 1) / n / ways, n - 1),)


def cable_chains(groups: Groups) -> Pattern:
    """A broadcast along all rings at once, each way a part of the tensor, chunk behind chunk.

    Where there is a chain and no ring, both ways of its cables carry all.
    """
    n, found = groups.size, cast("Strung", _strung(groups))
    ways = found.rings * (2 if n > 2 else 1) or 1
    phase = phase_of(Carried(groups.loaded(found.flows), found.far), 1 / ways)
    return (replace(phase, stages=n - 2),)


def in_switch(groups: Groups) -> Pattern:
    """The switch sums what all send, and sends everyone the sum (NVLink SHARP, NCCL's NVLS).

    Each of n members asks for the sum of its piece and hands it out: a piece is sent by
    all and comes once, then is sent once and comes to all. A port carries S (1 + 1/n)
    each way, half in each of two steps, at the part of its bandwidth at which the
    switch sums: links count as busy with what they could have carried meanwhile.
    """
    n = groups.size
    carried = groups.carry(*following(np.arange(n), 0, both_ways=False))  # each port once
    return (phase_of(carried, (n + 1) / n, 2, reduces(groups)),)
