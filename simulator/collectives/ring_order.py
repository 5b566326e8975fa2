"""Members of a group in the order in which a ring visits them."""

from __future__ import annotations

import numpy as np

from hardware import Wires
from hardware.interconnect.torus import Grid
from simulator.engine.jobs import Ints


def boxes(wires: Wires, groups: Ints) -> Ints | None:
    """Groups as boxes of their ring, torus or mesh: groups by x by y by z, sides of one dropped.

    None where members are not one per node of such a fabric, or do not have
    every combination of their coordinates, or the groups' boxes differ.
    """
    at = _coordinates(wires, groups)
    if at is None:
        return None
    order = np.lexsort(np.moveaxis(at, 2, 0)[::-1], axis=1)
    at = np.take_along_axis(at, order[:, :, np.newaxis], 1)
    sides = tuple(len(np.unique(at[0, :, d])) for d in range(at.shape[2]))
    if np.prod(sides) != groups.shape[1]:
        return None
    at = at.reshape(len(groups), *sides, len(sides))
    for d, side in enumerate(sides):
        along = np.moveaxis(at[..., d], d + 1, 1).reshape(len(groups), side, -1)
        if (along != along[:, :, :1]).any() or (np.diff(along[:, :, 0], axis=1) <= 0).any():
            return None
    members = np.take_along_axis(groups, order, 1)
    return members.reshape(len(groups), *(side for side in sides if side > 1))


def _coordinates(wires: Wires, groups: Ints) -> Ints | None:
    """Groups by members by dimensions, where every group is on one grid; else None."""
    others = groups[:, 1:]
    firsts = np.broadcast_to(groups[:, :1], others.shape)
    at: Ints | None = None
    reached = 0
    for subnet, chosen in wires.by_subnet(firsts.ravel(), others.ravel()):
        rows, counts = np.unique(chosen // others.shape[1], return_counts=True)
        grid = subnet.fabric
        if not isinstance(grid, Grid) or (counts != others.shape[1]).any():
            return None
        at = np.zeros((*groups.shape, len(grid.shape)), dtype=np.int64) if at is None else at
        if at.shape[2] != len(grid.shape):
            return None
        at[rows] = grid.coordinates[subnet.node[groups[rows]] % grid.size]
        reached += len(chosen)
    return at if reached == others.size else None


def in_ring_order(wires: Wires, groups: Ints) -> Ints:
    """Members so that neighbours are near: round their box on a grid, else as they come.

    Cores of one node stay together.
    """
    for of in (wires.chip, wires.board):
        nodes = runs(of, groups)
        if nodes is not None:
            members = boxes(wires, nodes[:, :, 0])
            if members is not None:
                order = np.argsort(nodes[:, :, 0], axis=1)
                visited = members.reshape(len(groups), -1)[:, cycle(members.shape[1:])]
                ranks = np.argsort(np.argsort(visited, axis=1), axis=1)
                places = np.take_along_axis(order, ranks, 1)
                ordered = np.take_along_axis(nodes, places[:, :, np.newaxis], 1)
                return ordered.reshape(groups.shape)
    return groups


def runs(of: Ints, groups: Ints) -> Ints | None:
    """Groups by nodes by cores of a node, where every node has equally many in a row.

    ``of`` says on which node (chip, board, kind) every core is.
    """
    node = of[groups]
    first = node[0] == node[0, 0]
    count = int(first.sum())
    if groups.shape[1] % count:
        return None
    rows = node.reshape(len(groups), -1, count)
    if (rows != rows[:, :, :1]).any():
        return None
    heads = np.sort(rows[:, :, 0], axis=1)
    if (np.diff(heads, axis=1) == 0).any():
        return None
    return groups.reshape(rows.shape)


def cycle(sides: tuple[int, ...]) -> Ints:
    """A round trip through a box: numbers of its places (last side fastest) as visited.

    Every hop goes to a neighbour, the last one home too, where any side is
    even (or there is one side, and it wraps around); else the last is longer.
    """
    if len(sides) < 2:
        return np.arange(int(np.prod(sides)))
    numbers = np.arange(int(np.prod(sides))).reshape(sides)
    even = next((axis for axis, side in enumerate(sides) if side % 2 == 0), None)
    if even is None:
        return _path(numbers)
    numbers = np.moveaxis(numbers, even, 0)
    lanes = np.stack([_path(layer) for layer in numbers])
    there = [lane[1:] if i % 2 == 0 else lane[:0:-1] for i, lane in enumerate(lanes)]
    return np.concatenate([*there, lanes[::-1, 0]])


def _path(numbers: Ints) -> Ints:
    """All places of a box, each a neighbour of the one before: there and back in turns."""
    if numbers.ndim == 1:
        return numbers
    layers = [_path(layer) for layer in numbers]
    return np.concatenate([p if i % 2 == 0 else p[::-1] for i, p in enumerate(layers)])
