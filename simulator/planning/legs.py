"""Where a forward pass is at one node alone: between two of them it takes so long by itself.

In ResNets that is behind every block: no shortcut goes past it, and all that comes later
waits for it.

    0 -> 1 -> 2 -> 3 -> 4    behind 0, 1, 3 and 4, not behind 2, which the shortcut goes past
         +---------^
"""

from __future__ import annotations

import math

from workloads import Graph


def legs_of(graph: Graph) -> list[range]:
    """The nodes from one such place to the next.

    The last one ends early where nobody reads what some node makes.
    """
    read = {producer for node in graph for producer in node.producers}
    unread = next((v for v in range(len(graph) - 1) if v not in read), len(graph))
    found, lowest, end = list[range](), math.inf, 0
    for v in reversed(range(len(graph))):
        if v <= min(lowest, unread):
            if end:
                found.append(range(v + 1, end))
            end = v + 1
        lowest = min(lowest, *graph[v].producers, math.inf if graph[v].producers else -1)
    if end:
        found.append(range(end))
    return found[::-1]
