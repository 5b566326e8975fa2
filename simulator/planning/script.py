"""The lines of one layout's step: what a core computes and exchanges."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from planners.plan.updates import LAYERS
from simulator.planning.contention import Way
from simulator.planning.line_costs import GATHER, Back
from simulator.planning.lines import Line
from simulator.planning.lookup import Lookup

Needs = tuple[int, ...]
"""Lines that something waits for, by their numbers."""


class Script:
    """The lines of one layout's step, in the order in which they are written."""

    def __init__(self, lookup: Lookup, picks: Sequence[int], full_bytes: float = math.inf) -> None:
        self._lookup = lookup
        self._tables = lookup.tables
        self._graph = lookup.tables.graph
        self._picks = picks
        self._overlap = lookup.tables.execution.overlap
        self._gradients: dict[int, Needs] = {}
        """What each update waits for."""
        self._bucket: list[int] = []
        self._exchanged: dict[int, None] = {}
        """The nodes of all buckets, in their order."""
        self._bucket_way: Way = "", 0
        self._bucket_bytes, self._full_bytes = 0.0, full_bytes
        self._stream: Needs = ()
        self._ties: dict[int, list[Needs]] = {}
        """What the gradient of a weight that others use, too, waits for besides."""
        self._everywhere = GATHER, (1 << lookup.tables.cores.levels) - 1
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
        back, tied, new = self._lookup.back, self._lookup.tied, dict[int, Needs]()
        owners = set(tied.values())

        def waits(v: int) -> tuple[Needs, int]:
            """For what, and whose new weight it is, if others use it; -1 of all others."""
            return self._gradients.get(v, ()), v if v in owners else -1

        for (needs, owner), nodes in groupby(self._updated(), waits):
            seconds = sum([back[v][self._picks[v]].update_s for v in nodes])
            new[owner] = self._add(seconds, needs)
        for v, owner in tied.items():
            _, seconds = self._tied_s(v)
            self._add(seconds, new[owner], self._everywhere)

    def _updated(self) -> Sequence[int]:
        """The nodes in the order of their updates: as gradients arrive, if nobody asks for less."""
        layers = range(len(self._graph))
        if self._tables.execution.update_order == LAYERS:
            return layers
        return [*(v for v in reversed(layers) if v not in self._exchanged), *self._exchanged]

    def _forward(self, nodes: range) -> list[Needs]:
        """What makes each node's features; those before these are there."""
        lookup, picks, add = self._lookup, self._picks, self._add
        made: list[Needs] = [()] * nodes.start
        for v in nodes:
            pick, read = picks[v], list[Needs]()
            ahead = lookup.ahead[v][pick]
            for one in lookup.inputs[v]:
                moved = one.features[picks[one.producer], pick]
                there = made[one.producer]
                read.append(there if moved is None else add(moved[0], there, moved[1]))
            product = add(ahead.product_s, _all(read))
            made.append(add(ahead.sums_s, product, ahead.sums))
        return made

    def _backward(self, made: Sequence[Needs]) -> None:
        lookup, picks, add = self._lookup, self._picks, self._add
        arrived: list[list[Needs]] = [[] for _ in made]
        for v in reversed(range(len(made))):
            node, pick = self._graph[v], picks[v]
            back = lookup.back[v][pick]
            product = add(back.product_s, _all(arrived[v]) if arrived[v] else made[v])
            errors = add(back.sums_s, product, back.sums)
            if node.kind == "matmul":
                errors = add(back.gradient_s, errors)
            for one in lookup.inputs[v]:
                moved = one.errors[picks[one.producer], pick]
                sent = errors if moved is None else add(moved[0], errors, moved[1])
                arrived[one.producer].append(sent)
            if not node.join and node.kind != "matmul":
                waited = not lookup.ordered[v] or product != (len(self.lines) - 1,)
                computed = add if waited else self._longer
                gradient = computed(back.gradient_s, product)
                uses = self._ties.get(v)
                self._gradients[v] = _all([gradient, *uses]) if uses else gradient
                if self._overlap:
                    self._put(v, back)
        if not self._overlap:
            for v in sorted(self._gradients, reverse=True):
                self._put(v, lookup.back[v][picks[v]])
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

    def _put(self, v: int, back: Back) -> None:
        """Add a gradient to the bucket, which goes when it is full."""
        if v in self._lookup.tied:
            seconds, _ = self._tied_s(v)
            needs = _all([self._gradients[v], self._stream])
            self._stream = self._add(seconds, needs, self._everywhere)
            self._ties.setdefault(self._lookup.tied[v], []).append(self._stream)
        if back.gradient is None:
            return
        size, way = back.gradient
        if way != self._bucket_way:  # others are not in its groups
            self._send()
            self._bucket_way = way
        self._bucket.append(v)
        self._exchanged[v] = None
        self._bucket_bytes += size
        if self._bucket_bytes >= self._full_bytes:
            self._send()

    def _tied_s(self, v: int) -> tuple[float, float]:
        """Seconds to whose weight a node's is, and back from there."""
        return self._lookup.costs.ties.seconds(v, self._picks[v], self._picks[self._lookup.tied[v]])

    def _send(self) -> None:
        """The bucket on its way, behind those before it."""
        if not self._bucket:
            return
        seconds = self._tables.curves.seconds(*self._bucket_way, self._bucket_bytes)
        needs = _all([*(self._gradients[v] for v in self._bucket), self._stream])
        self._stream = self._add(seconds, needs, self._bucket_way)
        for v in self._bucket:
            self._gradients[v] = self._stream
        self._bucket, self._bucket_bytes = [], 0.0


def _all(needs: Sequence[Needs]) -> Needs:
    if len(needs) == 1:
        return needs[0]
    return tuple(sorted({line for some in needs for line in some}))
