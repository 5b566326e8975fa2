"""Routes by the names of links, one message at a time, from docs/explanation/collectives.md."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

Shape = tuple[int, ...]
Box = tuple[range, ...]
"""Coordinates along each dimension."""


def numbered(box: Box) -> list[Shape]:
    """Coordinates of a grid's nodes in order: the longest side is halved, again and again."""
    longest = max(box, key=len)
    if len(longest) == 1:
        return [tuple(side[0] for side in box)]
    at = next(i for i, side in enumerate(box) if len(side) == len(longest))
    half = (len(longest) + 1) // 2
    found: list[Shape] = []
    for part in (longest[:half], longest[half:]):
        found += numbered((*box[:at], part, *box[at + 1 :]))
    return found


def called(at: Shape) -> str:
    return f"board{at[0]}" if len(at) == 1 else f"board({','.join(map(str, at))})"


def around(kind: str, here: int, there: int, side: int, two_way: bool) -> int:
    """Hops along one dimension, negative ones down."""
    if kind == "mesh" or side == 2:
        return there - here
    up, down = (there - here) % side, (here - there) % side
    if not two_way or up < down or (up == down and here % 2 == 0):
        return up
    return -down


def on_grid(kind: str, shape: Shape, two_way: bool, source: int, target: int) -> list[str]:
    """Dimension by dimension, hop by hop."""
    nodes = numbered(tuple(range(side) for side in shape))
    at, goal, links = list(nodes[source]), nodes[target], list[str]()
    for axis, side in enumerate(shape):
        hops = around(kind, at[axis], goal[axis], side, two_way)
        for _ in range(abs(hops)):
            links.append(f"{called(tuple(at))} {'+' if hops > 0 else '-'}{'xyz'[axis]}")
            at[axis] = (at[axis] + (1 if hops > 0 else -1)) % side
    assert tuple(at) == goal
    return links


def subtrees(first: int, count: int) -> list[tuple[int, int]]:
    """Every subtree of the bisection from the root down: first node, number of nodes."""
    if count == 1:
        return [(first, 1)]
    half = (count + 1) // 2
    below = [*subtrees(first, half), *subtrees(first + half, count - half)]
    return [(first, count), *below]


def in_tree(count: int, source: int, target: int) -> list[str]:
    """Up through all subtrees that have the source alone, down through the target's."""

    def passed(inside: int, outside: int) -> list[tuple[int, int]]:
        return [
            (first, size)
            for first, size in subtrees(0, count)
            if first <= inside < first + size and not first <= outside < first + size
        ]

    def name(first: int, size: int, way: str) -> str:
        return f"board{first} {way}" if size == 1 else f"board{first}-{first + size - 1} {way}"

    up, down = passed(source, target), passed(target, source)
    return [name(*t, "up") for t in reversed(up)] + [name(*t, "down") for t in down]


def route(
    kind: str, shape: Shape, count: int, source: int, target: int, *, two_way: bool = True
) -> list[str]:
    """Names of the links that a message between two boards crosses."""
    match kind:
        case "bus":
            return ["board bus"]
        case "switch":
            return [f"board{source} up", f"board{target} down"]
        case "fully_connected":
            return [f"board{source} to board{target}"]
        case "tree":
            return in_tree(count, source, target)
        case _:
            return on_grid(kind, shape or (count,), two_way, source, target)


def crossings(routes: Sequence[tuple[list[str], float]]) -> dict[str, float]:
    """How many flows cross each link."""
    total: dict[str, float] = {}
    for links, flows in routes:
        for link in links:
            total[link] = total.get(link, 0.0) + flows
    return total


def pairs(count: int) -> list[tuple[int, int]]:
    """All ordered pairs of different nodes."""
    return list(itertools.permutations(range(count), 2))
