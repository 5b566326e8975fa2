"""The least step of a whole layout, or a bound on it: nodes in their order, state by state.

A core computes its products in the order of the nodes, forward and then
backward, and waits for an exchange between two that follow each other:

    T >= forward + max(backward + update, stream)

where the stream is the all-reduces of gradients, one after the other, beside
the backward products, and weights are updated behind these as gradients arrive (in another
order, no earlier). Either of the two can be the larger one, so for every
weight from 0 to 1

    T >= forward + (1 - weight) * (backward + update) + weight * stream

which is a sum over nodes and over neighbours: its least value is found
exactly, node by node, and the best weight gives the best bound. Every weight
also gives a layout worth judging.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simulator.cost.operators import NodeOperators
from simulator.engine.jobs import Floats
from simulator.search.tables import Costs, Tables
from workloads import Graph


@dataclass(frozen=True, slots=True)
class Waits:
    """By node: whether a core waits for what comes from the node before, and goes back to it.

    ``ends``: whether backward products, or the step's end, wait for the last node's sums;
    ``computes``: which nodes have a backward product of their own.
    """

    forward: tuple[bool, ...]
    backward: tuple[bool, ...]
    ends: bool
    computes: tuple[bool, ...]


def waits_of(graph: Graph, operators: Sequence[NodeOperators]) -> Waits:
    """The waits of a graph with these operators; a step that goes forward alone ends behind all."""
    nodes = range(len(graph))
    follows = [v > 0 and v - 1 in graph[v].producers for v in nodes]
    ahead = [bool(work.forward) for work in operators]
    back = [bool(work.backward) for work in operators]
    any_back = [bool(work.backward or work.gradient) for work in operators]
    last = len(graph) - 1
    turns = back[last] or not any(any_back)
    starts = _handed(ahead, follows)
    ends = _handed([*ahead[:-1], ahead[-1] or turns][::-1], [False, *follows[:0:-1]])[::-1]
    leaves = _handed(back[::-1], [False, *follows[:0:-1]])[::-1]
    arrives = _handed(any_back, follows)
    return Waits(
        tuple(follows[v] and starts[v - 1] and ends[v] for v in nodes),
        tuple(follows[v] and leaves[v] and arrives[v - 1] for v in nodes),
        turns and starts[last],
        tuple(back),
    )


def _handed(own: Sequence[bool], follows: Sequence[bool]) -> list[bool]:
    """Whether each has something of its own, or follows one of which that is so."""
    found: list[bool] = []
    for mine, behind in zip(own, follows, strict=True):
        found.append(mine or (behind and bool(found) and found[-1]))
    return found


MOST_TRIED = 8
"""Weights tried on the way to the best."""
MOST_WEIGHT = 0.999
"""With all weight on the stream nothing would tell backward products apart."""


@dataclass(frozen=True, slots=True)
class Found:
    """A layout, by the number of every node's state; what no layout undercuts; and by which weight.

    The bound is that of the weight, and what the layout's own sum is.
    """

    weight: float
    bound_s: float
    picks: tuple[int, ...]


class Chain:
    """Costs between nodes that follow each other in the order of the graph.

    Exchanges between other nodes are left out: they may go on beside products.
    Without overlap nothing does, and backward and stream are one sum. Where
    nodes are to be ``filled``, states that leave cores without any of them are
    not taken: what they cost is not known exactly, so that a bound needs them
    and a good layout does not. ``byte_s`` are seconds that every byte costs which a
    core has to hold: with them, layouts that need less memory come first. What a bound is made
    of is ``sure``: a join that computes nothing backward hands errors on while the
    gradient of the node behind it is computed, so that what it sends counts nothing.
    """

    def __init__(
        self, tables: Tables, *, filled: bool = False, byte_s: float = 0.0, sure: bool = False
    ) -> None:
        self.tables = tables
        self.byte_s = byte_s
        self.filled = filled
        self._sure = sure
        self.overlap = tables.execution.overlap
        self.waits = waits_of(tables.graph, tables.operators.nodes)

    @cached_property
    def nodes(self) -> list[Costs]:
        """The costs of every node."""
        return self.tables.nodes

    def best(self) -> list[Found]:
        """The layout of every weight that was tried, that of the best bound first.

        A layout's sum is a line over the weight, and the bound lies below all of
        them: the next weight is where the lines of the two ends meet.
        """
        low = self.least(0.0)
        tried = [low]
        if self.overlap and self._slope(low) > 0:
            high = self.least(MOST_WEIGHT)
            tried.append(high)
            while len(tried) < MOST_TRIED and (slope := self._slope(high)) < 0:
                rise = self._slope(low)
                gap = (high.bound_s - low.bound_s - rise * (high.weight - low.weight)) / (
                    slope - rise
                )
                middle = self.least(high.weight - gap)
                tried.append(middle)
                if middle.picks in (low.picks, high.picks):
                    break
                low, high = (middle, high) if self._slope(middle) > 0 else (low, middle)
        return sorted(tried, key=lambda found: -found.bound_s)

    def _slope(self, found: Found) -> float:
        """How fast a layout's sum grows with the weight."""
        return self.seconds(found.picks, 1.0) - self.seconds(found.picks, 0.0)

    def seconds(self, picks: Sequence[int], weight: float) -> float:
        """A layout's sum."""
        total = 0.0
        for v, pick in enumerate(picks):
            total += float(self.own(v, weight)[pick])
            if v:
                forward, backward = self._pairs[self._pair_sorts[v]]
                total += float(forward[picks[v - 1], pick])
                total += (1.0 - weight) * float(backward[picks[v - 1], pick])
        return total

    def least(self, weight: float) -> Found:
        """The least sum with so much weight on the stream."""
        reached = self.reached(weight)
        picks = [int(reached[-1].argmin())]
        for v in range(len(self.nodes) - 1, 0, -1):
            come = reached[v - 1] + self.pair(v, weight)[:, picks[-1]]
            picks.append(int(come.argmin()))
        return Found(weight, float(reached[-1].min()), tuple(reversed(picks)))

    def reached(self, weight: float) -> list[Floats]:
        """By node and state, the least sum so far."""
        found = [self.own(0, weight)]
        for v in range(1, len(self.nodes)):
            found.append(_least_to(self.pair(v, weight), found[-1]) + self.own(v, weight))
        return found

    def marginals(self, weight: float) -> list[Floats]:
        """By node and state, the least sum of all that has it."""
        ahead = self.reached(weight)
        found, after = [ahead[-1]], np.zeros_like(ahead[-1])
        for v in range(len(self.nodes) - 1, 0, -1):
            after = (self.pair(v, weight) + (after + self.own(v, weight))).min(axis=1)
            found.append(ahead[v - 1] + after)
        return found[::-1]

    def own(self, v: int, weight: float) -> Floats:
        """What a node adds by itself, as ``_own``; forever where its state is not to be taken."""
        costs = self.nodes[v]
        found = self._own(v, weight) + self.byte_s * costs.held_bytes
        if self.filled and not costs.empty.all():
            found = np.where(costs.empty, np.inf, found)
        return found

    def _own(self, v: int, weight: float) -> Floats:
        """What a node adds by itself."""
        costs, stay = self.nodes[v], 1.0 - weight
        if not self.overlap:
            sums = costs.forward_sums_s + costs.backward_sums_s + costs.stream_s
            products = costs.forward_s + costs.backward_s + costs.gradient_s + costs.update_s
            found: Floats = products + sums
            return found
        both = self.matmul(v)
        backward = costs.backward_s + costs.update_s + (costs.gradient_s if both else 0.0)
        with np.errstate(invalid="ignore"):  # an algorithm that does not apply takes forever
            stream_s = np.where(np.isinf(costs.stream_s), np.inf, weight * costs.stream_s)
        own = costs.forward_s + stay * backward + stream_s
        if not v and not both:
            own = own + stay * costs.gradient_s
        if v == len(self.nodes) - 1:
            own = own + weight * costs.backward_s  # before it no gradient is there
            if self.waits.ends:
                own = own + costs.forward_sums_s
        return own

    def pair(self, v: int, weight: float) -> Floats:
        """What is between a node and the one before it, by the states of both."""
        forward, backward = self._pairs[self._pair_sorts[v]]
        return forward + (1.0 - weight) * backward

    @cached_property
    def _pair_sorts(self) -> tuple[int, ...]:
        """By node, a number for it and the one before it: equal where they cost as much."""
        found, known, sorts = [0], dict[Hashable, int](), self.tables.sorts
        for v in range(1, len(self.nodes)):
            whole = tuple(self.tables.whole_bytes(edge, v) for edge in self.read(v))
            waits = self.waits.forward[v], self._waits_back(v)
            key = sorts[v - 1], sorts[v], self.matmul(v), whole, waits
            found.append(known.setdefault(key, len(known)))
        return tuple(found)

    @cached_property
    def _pairs(self) -> list[tuple[Floats, Floats]]:
        """What is between a node and the one before it, by the number of both."""
        first = {sort: v for v, sort in reversed(list(enumerate(self._pair_sorts))) if v}
        return [self._between(first[sort], self.read(first[sort])) for sort in range(len(first))]

    def read(self, v: int) -> list[int]:
        """The edge by which a node reads the one before it, if it does."""
        producers = self.tables.graph[v].producers
        return [edge for edge, producer in enumerate(producers) if producer == v - 1][:1]

    def _waits_back(self, v: int) -> bool:
        return self.waits.backward[v] and (self.waits.computes[v] or not self._sure)

    def _between(self, v: int, read: Sequence[int]) -> tuple[Floats, Floats]:
        before, costs, tables = self.nodes[v - 1], self.nodes[v], self.tables
        ahead = back = np.zeros((len(before.states), len(costs.states)))
        serial = not self.overlap
        for edge in read:
            if self.waits.forward[v] or serial:
                ahead = tables.forward_relay(edge, v)
            if self._waits_back(v) or serial:
                back = tables.backward_relay(edge, v)
        if serial:
            return ahead, back
        if read and self.waits.forward[v]:
            ahead = ahead + before.forward_sums_s[:, np.newaxis]
        if read and self._waits_back(v):
            back = back + costs.backward_sums_s
        if not self.matmul(v):
            back = np.maximum(back, costs.gradient_s)
        return ahead, back

    def matmul(self, v: int) -> bool:
        """Whether a node's gradient is the error of its second operand, and goes with the first."""
        return self.tables.graph[v].kind == "matmul"


def _least_to(pair: Floats, before: Floats) -> Floats:
    """By state, the least of what is before it and what is between; most may be without any."""
    there = np.isfinite(before)
    if not there.any():
        return np.full(pair.shape[1], np.inf)
    found: Floats = (before[there, np.newaxis] + pair[there]).min(axis=0)
    return found
