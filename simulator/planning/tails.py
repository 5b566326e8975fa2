"""What comes after the last product of backward: a bound that knows when the stream may end.

The chain's bound lets the stream of gradients run beside backward from the start. But
the gradient of the first node, in the order of the graph, that has one in the stream is the
last to be there, so that its bucket is exchanged when backward is over:

    T >= forward + backward, as far as that node + its bucket + updates from it on

Updates of earlier nodes need nothing of the stream, and count nothing here. In
its bucket are the nodes behind it of the same types, if all gradients of the network
together do not fill one; else at least its own. A step takes at least any mean of this
and of the two sums of the chain: ``Parts`` says how much of each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.planning.chain import Chain
from simulator.planning.curves import Floats


class Parts(NamedTuple):
    """Of each sum in the mean: all of backward, the stream, and backward with a tail."""

    backward: float
    stream: float
    tail: float


TRIED = tuple(
    Parts(round(1.0 - stream - tail, 1), stream, tail)
    for tail in (0.2, 0.4, 0.6, 0.8)
    for stream in (0.0, 0.2, 0.4)
    if stream + tail <= 1.0
)
BEFORE, WITHIN, BEHIND = range(3)
"""Where a node is: before the first that has a gradient in the stream, in its bucket, behind."""


def tail_bound_s(chain: Chain) -> float:
    """What no layout undercuts, by the best of a few means; with overlap alone."""
    if not chain.overlap:
        return 0.0
    tails = _Tails(chain)
    return max(map(tails.least_s, TRIED))


class _Tails:
    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        tables = chain.tables
        whole_bytes = sum(max(costs.gradient_bytes, default=0.0) for costs in chain.nodes)
        self._one_bucket = whole_bytes < tables.bucket_bytes
        self._first_s: dict[int, Floats] = {}
        self._more_s: dict[int, Floats] = {}
        for costs in chain.nodes:
            masks, size = costs.states.masks[0], costs.gradient_bytes * ~costs.hollow
            far = np.full(len(size), max(whole_bytes, 1.0))
            slope = tables.curves.of_masks("all-reduce", masks, 2 * far)
            slope = (slope - tables.curves.of_masks("all-reduce", masks, far)) / far
            self._first_s[id(costs)] = tables.curves.of_masks("all-reduce", masks, size)
            self._more_s[id(costs)] = np.maximum(slope, 0.0) * size

    def least_s(self, parts: Parts) -> float:
        """The least mean of all layouts."""
        reached = self._start() + self._own(0, parts)
        for v in range(1, len(self._chain.nodes)):
            reached = self._own(v, parts) + self._come(v, parts, reached)
        return float(reached.min())

    def _start(self) -> Floats:
        starts = self._chain.starts(0)
        none = np.full(len(starts), np.inf)
        return np.array([np.where(starts, np.inf, 0.0), np.where(starts, 0.0, np.inf), none])

    def _come(self, v: int, parts: Parts, reached: Floats) -> Floats:
        """By where the node is and its state, the least sum of all before, and what is between."""
        chain, starts, same = self._chain, self._chain.starts(v), self._alike(v)
        between = chain.pair(v, 1.0 - parts.backward)
        before = (reached[BEFORE][:, np.newaxis] + between).min(axis=0)
        between = chain.pair(v, parts.stream)
        within = reached[WITHIN][:, np.newaxis] + between
        behind = (reached[BEHIND][:, np.newaxis] + between).min(axis=0)
        stays = np.where(same, within, np.inf).min(axis=0)
        leaves = np.where(same, np.inf, within).min(axis=0)
        costs = chain.nodes[v]
        more_s = parts.tail * self._more_s[id(costs)] - self._enters(v, parts)
        return np.array(
            [
                np.where(starts, np.inf, before),
                np.minimum(np.where(starts, before, np.inf), stays + more_s),
                np.minimum(leaves, behind),
            ]
        )

    def _alike(self, v: int) -> NDArray[np.bool_]:
        """By the states of the node before and of this, whether they surely share a bucket."""
        one, other = self._chain.nodes[v - 1].states, self._chain.nodes[v].states
        if not self._one_bucket:
            return np.zeros((len(one), len(other)), dtype=np.bool_)
        same: NDArray[np.bool_] = (one.types[:, np.newaxis] == other.types).all(axis=2)
        return same & self._chain.starts(v)

    def _enters(self, v: int, parts: Parts) -> Floats:
        """What the first node of the last bucket adds: its gradient, and the exchange of that."""
        costs = self._chain.nodes[v]
        return parts.tail * (costs.gradient_s + self._first_s[id(costs)])

    def _own(self, v: int, parts: Parts) -> Floats:
        """What a node adds by itself, by where it is; within as if it were the first there."""
        chain, costs = self._chain, self._chain.nodes[v]
        own = costs.forward_s
        backward = costs.backward_s + (costs.gradient_s if chain.matmul(v) else 0.0)
        if not v and not chain.matmul(v):
            own = own + parts.backward * costs.gradient_s
        if v == len(chain.nodes) - 1:
            own = own + parts.stream * costs.backward_s
            if chain.ends:
                own = own + costs.forward_sums_s
        before = own + parts.backward * (backward + costs.update_s)
        after = own + (1.0 - parts.stream) * backward
        after = after + parts.stream * costs.stream_s + costs.update_s
        return np.array([before, after + self._enters(v, parts), after])
