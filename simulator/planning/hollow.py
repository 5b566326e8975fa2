"""What is exchanged where a node has fewer samples or channels than its cores are halved into.

Of three input channels on four cores one core has none, and the sums are among
the other three, or among all four, whichever takes less. No strides describe
such groups: they are made core by core, as the simulator makes them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hardware import Group, Wires
from planners.partition import III, PartitionType, Shard
from simulator.collectives.algorithms import CollectiveError
from simulator.collectives.choice import offer
from simulator.collectives.lattice import Lattice
from simulator.engine.picoseconds import PICOSECONDS
from simulator.sharding.blocks import Block, Halving
from simulator.sharding.mesh import Mesh
from simulator.sharding.redistribute import Request, redistribute
from simulator.sharding.spec import Layout, Placement
from workloads import Node


def sums_s(
    whole: Shard,
    types: Sequence[PartitionType],
    summed: PartitionType,
    size_bytes: float,
    wires: Wires,
    first: int,
    algorithm: str,
) -> float:
    """Seconds of an all-reduce of so many bytes over the levels of type ``summed``, alone."""
    together = tuple(kind is summed for kind in types)
    if not size_bytes or not any(together):
        return 0.0
    block = halved([whole], [types])
    busy = block.busy((0,))
    ways = [block.groups(together, busy)]
    if ways[0].size < 2:
        return 0.0
    if not busy.all():
        ways.append(block.groups(together, np.ones_like(busy)))
    at = Lattice(first)
    try:
        found = [offer(wires, "all-reduce", way.at(at), size_bytes, algorithm) for way in ways]
    except CollectiveError:  # an algorithm that was asked for does not apply
        return math.inf
    return min(one.alone_ps for one in found) / PICOSECONDS


def relaid_s(
    nodes: Sequence[Node],
    batch: int,
    types: Sequence[Sequence[PartitionType]],
    layouts: Sequence[Sequence[Placement]],
    whole_bytes: float,
    wires: Wires,
    first: int,
    algorithm: str,
) -> float:
    """Seconds until the cores have what they read of a tensor of so many bytes, alone.

    ``nodes`` are who holds and who reads it, ``types`` theirs by level and ``layouts`` what
    these make of the tensor (``Layout.by_type``). Infinite where the
    algorithm does not apply.
    """
    part = part_of(nodes, batch, types, first)
    held, read = (Layout(v, tuple(layout)) for v, layout in enumerate(layouts))
    requests = redistribute((held, read), part, whole_bytes)
    return in_turn_s(requests, wires, algorithm)


def part_of(
    nodes: Sequence[Node], batch: int, types: Sequence[Sequence[PartitionType]], first: int
) -> Mesh:
    """Cores from the first on, with what they hold of some nodes by their types at each level."""
    wholes = tuple(whole_of(node, batch) for node in nodes)
    block = halved(wholes, types, [node.join for node in nodes])
    levels = tuple(zip(*types, strict=True))
    return Mesh(0, Group(()), Lattice(first), wholes, types=levels, block=block)


def in_turn_s(requests: Sequence[Request], wires: Wires, algorithm: str) -> float:
    """Seconds of collectives one after the other; infinite where the algorithm does not apply."""
    try:
        return sum(_alone_s(wires, one, algorithm) for one in requests)
    except CollectiveError:
        return math.inf


def _alone_s(wires: Wires, request: Request, algorithm: str) -> float:
    """Seconds of one collective; there is one way to do an all-to-all."""
    collective, groups = request.collective, request.groups[0].at(request.mesh.copies)
    by = "auto" if collective == "all-to-all" else algorithm
    return offer(wires, collective, groups, float(request.bytes[0]), by).alone_ps / PICOSECONDS


def whole_of(node: Node, batch: int) -> Shard:
    """All of a node's samples, channels, groups and positions."""
    groups = node.groups
    return Shard(
        batch, node.in_channels / groups, node.out_channels / groups, groups, node.out_area
    )


def filled(node: Node, batch: int, types: Sequence[PartitionType]) -> bool:
    """Whether every core has a part of a node that is halved by these types."""
    counts = [types.count(kind) if not (node.join and kind is III) else 0 for kind in PartitionType]
    return all(n >= 1 << many for n, many in zip(whole_of(node, batch), counts, strict=True))


def halved(
    wholes: Sequence[Shard],
    types: Sequence[Sequence[PartitionType]],
    joins: Sequence[bool] = (False,),
) -> Block:
    """What every core holds of some nodes, halved by their types, remainders first.

    Type III replicates ``joins``.
    """
    halving = Halving.of(tuple(wholes))
    for kinds in zip(*types, strict=True):
        cut = [v for v, kind in enumerate(kinds) if not (joins[v] and kind is III)]
        halving.halve(cut, [kinds[v] for v in cut], lambda count: (count + 1) // 2)
    return halving.block()
