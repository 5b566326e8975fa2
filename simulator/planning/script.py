"""The lines of one layout's step: what a core computes and exchanges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from planners.order import Phase
from planners.updates import LAYERS
from simulator.planning.contention import Way
from simulator.planning.line_costs import GATHER, LineCosts
from simulator.planning.lines import Line
from simulator.planning.listed import Input

Needs = tuple[int, ...]
"""Lines that something waits for, by their numbers."""


class Script:
    """The lines of one layout's step, in the order in which they are written."""

    def __init__(
        self, costs: LineCosts, picks: Sequence[int], full_bytes: float = math.inf
    ) -> None:
        self._costs = costs
        self._tables = costs.tables
        self._graph = costs.tables.graph
        self._picks = picks
        self._overlap = costs.tables.execution.overlap
        self._gradients: dict[int, Needs] = {}
        """What each update waits for."""
        self._bucket: list[int] = []
        self._exchanged: dict[int, None] = {}
        """The nodes of all buckets, in their order."""
        self._bucket_bytes, self._full_bytes = 0.0, full_bytes
        self._stream: Needs = ()
        self._ties: dict[int, list[Needs]] = {}
        """What the gradient of a weight that others use, too, waits for besides."""
        self._everywhere = GATHER, (1 << costs.tables.cores.levels) - 1
        self.lines: list[Line] = []

    def ahead(self, leg: range) -> list[Line]:
        """Those of a leg forward."""
        self._forward(leg)
        return self.lines

    def write(self, start: int = 0) -> list[Line]:
        """All from a node on, which waits for nothing before it: the rest forward, and backward."""
        made = self._forward(range(start, len(self._graph)))
        if self._tables.execution.inference:
            return self.lines
        self._backward(made)
        self._update()
        return self.lines

    def _update(self) -> None:
        """New weights, and what others use of them; those that wait for the same in one line."""
        tied, new = self._costs.tied, dict[int, Needs]()
        owners = set(tied.values())

        def waits(v: int) -> tuple[Needs, int]:
            return self._gradients.get(v, ()), v if v in owners else -1

        for (needs, owner), nodes in groupby(self._updated(), waits):
            seconds = sum([self._costs.nodes[v].update_s[self._picks[v]] for v in nodes])
            new[owner] = self._add(seconds, needs)
        for v, owner in tied.items():
            _, seconds = self._tied_s(v, owner)
            self._add(seconds, new[owner], self._everywhere)

    def _updated(self) -> Sequence[int]:
        """The nodes in the order of their updates: as gradients arrive, if nobody asks for less."""
        layers = range(len(self._graph))
        if self._tables.execution.update_order == LAYERS:
            return layers
        return [*(v for v in reversed(layers) if v not in self._exchanged), *self._exchanged]

    def _forward(self, nodes: range) -> list[Needs]:
        """What makes each node's features; those before these are there."""
        costs, picks, add = self._costs, self._picks, self._add
        made: list[Needs] = [()] * nodes.start
        for v in nodes:
            lists, pick = costs.nodes[v], picks[v]
            read = [self._relay(made[i.producer], i, v, forward=True) for i in costs.inputs[v]]
            product = add(lists.forward_s[pick], _all(read))
            sums_s = costs.sums_s(v, pick, Phase.FORWARD)
            made.append(add(sums_s, product, lists.features[pick]))
        return made

    def _backward(self, made: Sequence[Needs]) -> None:
        costs, picks, add = self._costs, self._picks, self._add
        arrived: list[list[Needs]] = [[] for _ in made]
        for v in reversed(range(len(made))):
            node, lists, pick = self._graph[v], costs.nodes[v], picks[v]
            product = add(lists.backward_s[pick], _all(arrived[v]) if arrived[v] else made[v])
            sums_s = costs.sums_s(v, pick, Phase.BACKWARD)
            errors = add(sums_s, product, lists.errors[pick])
            if node.kind == "matmul":
                errors = add(lists.gradient_s[pick], errors)
            for one in costs.inputs[v]:
                arrived[one.producer].append(self._relay(errors, one, v, forward=False))
            if not node.join and node.kind != "matmul":
                waited = not costs.ordered[v] or product != (len(self.lines) - 1,)
                computed = add if waited else self._longer
                gradient = computed(lists.gradient_s[pick], product)
                self._gradients[v] = _all([gradient, *self._ties.get(v, ())])
                if self._overlap:
                    self._put(v)
        if not self._overlap:
            for v in sorted(self._gradients, reverse=True):
                self._put(v)
        self._send()

    def _add(self, seconds: float, needs: Needs, way: Way | None = None) -> Needs:
        """A line, and what waits for it waits for; for what takes no time, what it waits for."""
        if not seconds:
            return needs
        number = len(self.lines)
        if not self._overlap and number:
            needs = (number - 1,)
        self.lines.append(Line(seconds, needs, way))
        return (number,)

    def _longer(self, seconds: float, needs: Needs) -> Needs:
        """The last line, so many seconds longer: only products behind wait for it."""
        line = self.lines[-1]
        self.lines[-1] = line._replace(seconds=line.seconds + seconds)
        return needs

    def _relay(self, needs: Needs, one: Input, v: int, *, forward: bool) -> Needs:
        """Re-lay the tensor of an input, for who reads it or, its errors, for who made it."""
        known = one.features if forward else one.errors
        states = self._picks[one.producer], self._picks[v]
        if states not in known:
            known[states] = self._costs.moved(one.edge, v, *states, forward=forward)
        moved = known[states]
        return needs if moved is None else self._add(moved[0], needs, moved[1])

    def _put(self, v: int) -> None:
        """Add a gradient to the bucket, which goes when it is full."""
        if (owner := self._costs.tied.get(v)) is not None:
            seconds, _ = self._tied_s(v, owner)
            needs = _all([self._gradients[v], self._stream])
            self._stream = self._add(seconds, needs, self._everywhere)
            self._ties.setdefault(owner, []).append(self._stream)
        size, way = self._costs.gradient_bytes(v, self._picks[v]), self._way(v)
        if not size or not way[1]:
            return
        if self._bucket and self._way(self._bucket[0]) != way:  # others are not in its groups
            self._send()
        self._bucket.append(v)
        self._exchanged[v] = None
        self._bucket_bytes += size
        if self._bucket_bytes >= self._full_bytes:
            self._send()

    def _tied_s(self, v: int, owner: int) -> tuple[float, float]:
        return self._costs.ties.seconds(v, self._picks[v], self._picks[owner])

    def _way(self, v: int) -> Way:
        return self._costs.nodes[v].gradients[self._picks[v]]

    def _send(self) -> None:
        """The bucket on its way, behind those before it."""
        if not self._bucket:
            return
        way = self._way(self._bucket[0])
        seconds = self._tables.curves.seconds(*way, self._bucket_bytes)
        needs = _all([*(self._gradients[v] for v in self._bucket), self._stream])
        self._stream = self._add(seconds, needs, way)
        for v in self._bucket:
            self._gradients[v] = self._stream
        self._bucket, self._bucket_bytes = [], 0.0


def _all(needs: Sequence[Needs]) -> Needs:
    if len(needs) == 1:
        return needs[0]
    return tuple(sorted({line for some in needs for line in some}))
