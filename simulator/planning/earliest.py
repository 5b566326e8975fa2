"""When a step can be over at the earliest, of all layouts: core, stream and ports together.

Backward is followed from the last node to the first, as a core computes it. A *label* says
when, at the earliest, five things are through with what came so far:

    core     its products, each behind the exchange that it waits for
    stream   the buckets of gradients, one after the other, none before its gradients are there
    port     what crosses the links between nodes (``Ports``), no byte before it is made
    updated  the core, had it updated all weights besides
    late     the updates of what is exchanged, none before its bucket is there

All forward products lie before, and are in the sums. A node of which the product takes 2, its
gradient 1, an exchange on the port 3, its bucket 4 (all of these on the port), and its update
5, behind a label (10, 11, 12, 13, 14):

    core 10 + 2 = 12    stream max(11, 12 + 1) + 4 = 17    port max(12, 12) + 3 + 4 = 19
    updated 13 + 2 + 5 = 20    late max(14, 17) + 5 = 22

No step of a layout ends before the largest of these does: not as gradients arrive, and not in
the layers' order, in which all behind it are updated after the gradient that comes last. Of every
state of a node the labels of all states before are kept, sorted into a few by how far
the core is behind; those that are sorted together become one with the least of each: so
nothing is missed, and a bound remains a bound.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from planners.partition import III, I
from simulator.planning.buckets_bound import REDUCE, sent
from simulator.planning.chain import Chain
from simulator.planning.curves import Floats, Ints
from simulator.planning.narrowed import Kept
from simulator.planning.ports import Ports

SORTED = 16
"""Labels of a state that are kept."""


class Labels(NamedTuple):
    """Seconds, by number and state.

    ``bucket`` is when the core was here plus what the bucket that is being filled takes so far.
    """

    core: Floats
    stream: Floats
    bucket: Floats
    port: Floats
    updated: Floats
    late: Floats


def earliest_s(chain: Chain, ports: Ports, limit_s: float) -> float:
    """What no layout undercuts, or ``limit_s`` where that is more; with overlap alone."""
    return _Sweep(chain, ports, limit_s).least_s()


class _Sweep:
    def __init__(self, chain: Chain, ports: Ports, limit_s: float) -> None:
        self._chain, self._ports, self._limit_s = chain, ports, limit_s
        self._sent = sent(chain.tables)
        self._rest_s = [one - chain.own(v, 0.0) for v, one in enumerate(chain.reached(0.0))]
        """By node and state, what the core takes at least for all nodes before it."""
        self._ahead_s = np.cumsum([0.0, *(float(one.forward_s.min()) for one in chain.nodes)])
        self._states: Ints = np.arange(len(chain.nodes[-1].states))
        """Those of the node that labels are of which any label has."""

    def least_s(self) -> float:
        """The least end of all labels that are left at the first node."""
        chain = self._chain
        labels = self._begun()
        for v in reversed(range(len(chain.nodes))):
            if v < len(chain.nodes) - 1:
                labels = self._come(v, labels)
            labels = self._below_limit(v, _sorted(self._buckets(v, labels)))
            if not len(self._states):
                return self._limit_s
        gradient_s = self._gradient_s(0)[self._states]
        port = np.maximum(labels.port, labels.core + gradient_s)
        port = port + self._gradient_port_s(0)[self._states]
        ends = np.maximum(labels.updated + gradient_s, np.maximum(labels.late, labels.stream))
        return min(self._limit_s, float(np.maximum(ends, port).min()))

    def _below_limit(self, v: int, labels: Labels) -> Labels:
        """Labels that may end before the limit, of the states that have any."""
        over = labels.updated + self._rest_s[v] >= self._limit_s
        beside = np.maximum(np.maximum(labels.stream, labels.late), labels.port)
        over |= beside + self._ahead_s[v] >= self._limit_s
        core = np.where(over, np.inf, labels.core)
        self._states = np.flatnonzero(np.isfinite(core).any(axis=0))
        return Labels(*(one[:, self._states] for one in labels._replace(core=core)))

    def _begun(self) -> Labels:
        """Of the last node, behind nothing."""
        v = len(self._chain.nodes) - 1
        costs = self._chain.nodes[v]
        ahead = costs.forward_s + (costs.forward_sums_s if self._chain.ends else 0.0)
        ahead = ahead[np.newaxis, np.newaxis]
        core = ahead + self._backward_s(v)
        return Labels(core, ahead, core, ahead, core + costs.update_s, ahead)

    def _come(self, v: int, labels: Labels) -> Labels:
        """Labels of the node behind as they come to each state of a node, for each of its own."""
        costs, behind = self._chain.nodes[v], self._states
        forward, backward = (one.T[behind] for one in self._chain.between(v + 1))
        ahead = forward + costs.forward_s
        takes = ahead + backward + self._backward_s(v)
        core, stream, bucket, port, updated, late = (one[..., np.newaxis] for one in labels)
        gone = np.maximum(port, core) + self._errors_port_s(v + 1)
        made = core + self._gradient_s(v + 1)[behind, np.newaxis]
        gone = np.maximum(gone, made) + self._gradient_port_s(v + 1)[behind, np.newaxis]
        updated = updated + takes + costs.update_s
        return Labels(
            core + takes, stream + ahead, bucket + takes, gone + ahead, updated, late + ahead
        )

    def _buckets(self, v: int, labels: Labels) -> Labels:
        """With what a node's gradient adds to the stream, if it is in it, and its update behind.

        In a bucket that holds all of its kind nothing goes before the last gradient is there.
        """
        of_node, starts = self._sent[id(self._chain.nodes[v])], self._chain.starts(v)
        same, unknown = self._runs(v)
        made = labels.core + self._gradient_s(v)
        own = of_node.start_s + of_node.adds_s
        bucket = np.where(same, labels.bucket + of_node.adds_s, labels.core + own)
        adds = np.where(same | unknown, of_node.adds_s, own)
        begun = np.where(of_node.whole, labels.stream, np.maximum(labels.stream, made))
        stream = np.maximum(begun + adds, made + of_node.alone_s)
        filled = np.where(of_node.whole, bucket + self._gradient_s(v), 0.0)
        stream = np.maximum(stream, filled)
        late = np.maximum(labels.late, stream) + self._chain.nodes[v].update_s
        sends = labels._replace(stream=stream, bucket=bucket, late=late)
        return Labels(*(np.where(starts, *pair) for pair in zip(sends, labels, strict=True)))

    def _runs(self, v: int) -> tuple[Kept, Kept]:
        """By states behind and here: whether both are in one bucket, if any; and if not known.

        A node without a gradient in the stream does not end a bucket.
        """
        chain = self._chain
        masks = chain.nodes[v].states.masks[I]
        if v == len(chain.nodes) - 1:
            none = np.zeros((1, len(masks)), dtype=np.bool_)
            return none, none
        had = chain.nodes[v + 1].states.masks[I][self._states, np.newaxis]
        before = chain.starts(v + 1)[self._states, np.newaxis]
        return before & (had == masks), ~before

    def _backward_s(self, v: int) -> Floats:
        costs = self._chain.nodes[v]
        return costs.backward_s + (costs.gradient_s if self._chain.matmul(v) else 0.0)

    def _gradient_s(self, v: int) -> Floats:
        """What the core computes behind the backward product."""
        gradient = self._chain.nodes[v].gradient_s
        return np.zeros_like(gradient) if self._chain.matmul(v) else gradient

    def _gradient_port_s(self, v: int) -> Floats:
        costs = self._chain.nodes[v]
        size = costs.gradient_bytes * ~costs.hollow
        return self._ports.seconds(REDUCE, costs.states.masks[I], size)

    def _errors_port_s(self, v: int) -> Floats:
        """Of a node's errors on their way to the node before, by the states of both."""
        edge, costs = self._chain.errors(v), self._chain.nodes[v]
        if edge is None:
            return np.zeros((1, 1))
        size = costs.backward_sums_bytes * ~costs.hollow
        sums_s = self._ports.seconds(REDUCE, costs.states.masks[III], size)
        relaid_s = self._chain.tables.backward_relay(edge, v, self._ports.relaid_s)
        found: Floats = (relaid_s + sums_s).T[self._states]
        return found


def _sorted(labels: Labels) -> Labels:
    """Of every state a few labels: those of which the core is about as far behind are one."""
    flat = Labels(*(one.reshape(-1, one.shape[-1]) for one in labels))
    states = flat.core.shape[1]
    there = np.isfinite(flat.core)
    beside = np.maximum(np.maximum(flat.stream, flat.late), np.maximum(flat.port, flat.bucket))
    behind = beside - np.where(there, flat.updated, 0.0)
    low = np.where(there, behind, np.inf).min(axis=0)
    far = np.where(there, behind - low, 0.0).max(axis=0)
    step = np.where(far > 0, far, 1.0) / SORTED
    number = np.where(there, (behind - low) / step, 0.0).astype(np.int64)
    place = np.minimum(number, SORTED - 1) * states + np.arange(states)
    found = np.full((len(labels), SORTED * states), np.inf)
    for kept, one in zip(found, flat, strict=True):
        np.minimum.at(kept, place[there], one[there])
    return Labels(*found.reshape(len(labels), SORTED, states))
