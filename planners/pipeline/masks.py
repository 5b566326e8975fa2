"""Order in graphs of few thousand nodes, as bit masks: bit v of a mask stands for node v."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence


def bits(mask: int) -> Iterator[int]:
    """Positions of a mask's ones, lowest first: 0b1010 gives 1, 3."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def neighbours(count: int, edges: Iterable[tuple[int, int]]) -> tuple[list[int], list[int]]:
    """Masks of every node's direct predecessors, and of its direct successors."""
    before, after = [0] * count, [0] * count
    for source, target in edges:
        before[target] |= 1 << source
        after[source] |= 1 << target
    return before, after


def topological(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Nodes such that edges go forwards; those on or behind a cycle are left out."""
    before, after = neighbours(count, edges)
    missing = [mask.bit_count() for mask in before]
    ready, order = deque(v for v in range(count) if not missing[v]), list[int]()
    while ready:
        order.append(node := ready.popleft())
        for successor in bits(after[node]):
            missing[successor] -= 1
            if not missing[successor]:
                ready.append(successor)
    return order


def reachable(order: Iterable[int], direct: Sequence[int]) -> list[int]:
    """Masks of all nodes that lead to each, by its direct ones; ``order`` has those first."""
    found = [0] * len(direct)
    for node in order:
        found[node] = direct[node]
        for one in bits(direct[node]):
            found[node] |= found[one]
    return found
