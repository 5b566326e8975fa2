"""Whole plans in a few words: which cores of each kind work, how they lay out, and their shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hardware import Array, Device, Group
from planners import Objective, Partition, Plan, Split
from planners.partition import I, PartitionType
from simulator.planning.lifting import idle, lifted
from simulator.planning.states import Types


@dataclass(frozen=True, slots=True)
class Piece:
    """The first ``size`` cores of a kind, a power of two, and every node's types on them."""

    device: Device
    size: int
    types: tuple[Types, ...]


@dataclass(frozen=True, slots=True)
class Placement:
    """A piece of every kind of device, or None where it is idle, and the samples' shares of kinds.

    Kinds part by samples (type I), each in proportion to its weight.
    """

    pieces: tuple[Piece | None, ...]
    weights: tuple[float, ...]

    def with_types(self, kind: int, node: int, types: Types) -> Placement:
        """The same where one node of one piece has other types."""
        piece = self.pieces[kind]
        if piece is None:
            raise ValueError(f"kind {kind} is idle")
        changed = (*piece.types[:node], types, *piece.types[node + 1 :])
        pieces = list(self.pieces)
        pieces[kind] = replace(piece, types=changed)
        return replace(self, pieces=tuple(pieces))

    def plan(self, array: Array, like: Plan) -> Plan:
        """The plan for an array; network, batch and all else as another plan of it has them."""
        root = _root(array.group, self.pieces, self.weights, len(like.nodes))
        return replace(like, root=root)


def blank(network: str, nodes: Sequence[str], batch: int, objective: Objective) -> Plan:
    """A plan without any splits, for others to be made like it."""
    table = objective.communication
    return Plan("search", network, batch, objective.name, tuple(nodes), None, table)


def _root(
    group: Group, pieces: Sequence[Piece | None], weights: Sequence[float], nodes: int
) -> Split | None:
    if len(group.kinds) == 1:
        (piece,) = pieces
        if piece is None:
            return idle(group, nodes)
        return lifted(split_of(piece.types), group, piece.device, piece.size, nodes)
    first, second = group.halves()
    middle = len(first.kinds)
    of_first, whole = sum(weights[:middle]), sum(weights)
    share = of_first / whole if whole else 0.5
    halves = (
        _root(first, pieces[:middle], weights[:middle], nodes),
        _root(second, pieces[middle:], weights[middle:], nodes),
    )
    return Split((Partition(I, share),) * nodes, 0.0, halves, idle=share in (0.0, 1.0))


def split_of(types: Sequence[Types]) -> Split | None:
    """The plan in which every node has these types, all halves alike."""
    even = [Partition(kind, 0.5) for kind in PartitionType]
    below: Split | None = None
    for level in reversed(range(len(types[0]))):
        below = Split(tuple(even[of_node[level]] for of_node in types), 0.0, (below,))
    return below
