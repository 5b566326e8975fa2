"""Which part of the weights that it holds a group updates, where that is shared out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from planners.partition import SAME_WEIGHTS
from simulator.sharding.mesh import Mesh

Fractions = Sequence[float]
"""Of the weights of every node that a part holds, those that its devices update together."""

Members = Callable[[Mesh, int], int]
"""How many devices of a part update something of a node."""


def updated(root: Mesh, shared: frozenset[int], members: Members) -> dict[Mesh, Fractions]:
    """Of every part what it updates of the weights that it holds.

    A split of type I leaves the same weights on both sides, who share out their update
    by numbers of devices. Of six devices that are two and four, the two update 1/3 of a layer of
    type I, each of them a half of that if they split it so, too; if they split it by
    type II each has half of the weights, and updates 1/3 of that half.
    """
    found: dict[Mesh, Fractions] = {}

    def walk(part: Mesh, fractions: Fractions) -> None:
        found[part] = fractions
        divided = [v for v in shared if part.halves and part.partitions[v].type in SAME_WEIGHTS]
        many = {} if part.idle else {v: [members(half, v) for half in part.halves] for v in divided}
        for i, half in enumerate(part.distinct()):
            own = list(fractions)
            for v, devices in many.items():
                own[v] *= devices[i] / sum(devices) if any(devices) else 1.0
            walk(half, own)

    walk(root, [1.0] * len(root.shards))
    return found


def boards(root: Mesh) -> Callable[[Mesh], int]:
    """Of every part of a plan the boards that do not sit out: they update what it holds."""
    found: dict[Mesh, int] = {}

    def count(part: Mesh) -> int:
        if part not in found:
            for half in part.distinct():
                count(half)
            found[part] = sum(map(count, part.working_halves)) if part.halves else 1
        return found[part]

    count(root)
    return lambda part: found[part]


def busy_cores(part: Mesh, v: int) -> int:
    """How many of a part's cores have something of a node."""
    return part.count((v,))


def of_each_core(part: Mesh, v: int, fraction: float) -> float:
    """What each core of a block updates of its weights of a node, if the block does ``fraction``.

    The cores that have the same weights: those that differ in levels of type I alone.
    """
    block = part.block
    if block is None or not part.busy((v,)):
        return fraction
    together = tuple(types[v] in SAME_WEIGHTS for types in part.types)
    return fraction / block.groups(together, block.busy((v,))).size
