r"""The chain's least sum where nodes also read others further back: they wait for those, too.

In a block of ResNet the sum of two paths comes behind both. Between the end of a's product and
what c has read lie b's product and what is waited for around it, and beside them a's own
partial sums on their way to c:

    a - b - c      1 + 2 + 1 ms on the core's way, or 6 ms from a to c: 6
     \_____/

No chain of neighbours has that. Here the nodes between are gone through for each pair of states
of a and c, and the larger of the two counts. Blocks that overlap count once: the shortest.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from simulator.planning.chain import MOST_WEIGHT, Chain
from simulator.planning.curves import Floats

WEIGHTS = 8
"""Of the stream, that are tried: the sum's least value is concave in it."""
MOST_WORK = 2e9
"""Triples of states that are gone through, all weights together: some seconds."""
ROWS = 1 << 20
"""Triples at a time."""
GOLDEN = (5**0.5 - 1) / 2

Block = tuple[int, int, int]
"""Who is read, by which edge, and by whom."""


def least_s(chain: Chain) -> float:
    """What no layout undercuts, by the weight that says most; 0 without blocks, or with too many.

    With overlap, and ``sure`` costs alone.
    """
    found = blocks(chain)
    sizes = [len(costs.states) for costs in chain.nodes]
    work = sum(
        sizes[u] * one * other for u, _, v in found for one, other in pairwise(sizes[u : v + 1])
    )
    if not found or work * WEIGHTS > MOST_WORK:
        return 0.0
    low, high = 0.0, MOST_WEIGHT
    best = least_sum(chain, found, 0.0)
    middle = [high - GOLDEN * (high - low), low + GOLDEN * (high - low)]
    sums = [least_sum(chain, found, weight) for weight in middle]
    for _ in range(WEIGHTS - 1 - len(middle)):
        best = max(best, *sums)
        if sums[0] < sums[1]:
            low = middle[0]
            middle = [middle[1], low + GOLDEN * (high - low)]
            sums = [sums[1], least_sum(chain, found, middle[1])]
        else:
            high = middle[1]
            middle = [high - GOLDEN * (high - low), middle[0]]
            sums = [least_sum(chain, found, middle[0]), sums[0]]
    return max(best, *sums)


def blocks(chain: Chain) -> list[Block]:
    """Those that lie apart, the shortest first chosen, where a core surely waits at both ends."""
    waits, found = chain.waits, list[Block]()
    every = [
        (u, edge, v)
        for v, node in enumerate(chain.tables.graph)
        for edge, u in enumerate(node.producers)
        if u < v - 1 and waits.made[u] and waits.used[v]
    ]
    for u, edge, v in sorted(every, key=lambda one: (one[2] - one[0], one)):
        if all(end <= u or begin >= v for begin, _, end in found):
            found.append((u, edge, v))
    return sorted(found)


def least_sum(chain: Chain, found: list[Block], weight: float) -> float:
    """The least sum with so much weight on the stream."""
    starts = {u: (edge, v) for u, edge, v in found}
    v, reached = 0, chain.own(0, weight)
    while v < len(chain.nodes) - 1:
        edge, end = starts.get(v, (-1, v + 1))
        between = chain.pair(end, weight) if edge < 0 else _block(chain, (v, edge, end), weight)
        reached = (reached[:, np.newaxis] + between).min(axis=0) + chain.own(end, weight)
        v = end
    return float(reached.min())


def _block(chain: Chain, block: Block, weight: float) -> Floats:
    """What lies between the first and the last node of a block, by the states of both."""
    u, edge, v = block
    between = chain.pair(u + 1, weight)
    beside = sum((1 - weight) * float(chain.between(k)[1].min()) for k in range(u + 1, v + 1))
    for k in range(u + 1, v):
        own = chain.own(k, weight)
        beside += float((own - chain.nodes[k].forward_s).min())  # backward, updates, stream
        between = _least_way(between + own, chain.pair(k + 1, weight))
    sums_s = chain.nodes[u].forward_sums_s[:, np.newaxis]
    around: Floats = chain.tables.forward_relay(edge, v) + sums_s + beside
    return np.maximum(between, around)


def _least_way(one: Floats, other: Floats) -> Floats:
    """From each state of the first to each of the last, over the best between."""
    found = np.empty((len(one), other.shape[1]))
    many = max(1, ROWS // other.size)
    for row in range(0, len(one), many):
        found[row : row + many] = (one[row : row + many, :, np.newaxis] + other).min(axis=1)
    return found
