"""What a whole layout should take, in milliseconds of planning: a core's step, line by line.

The chain's sum is a bound: whatever can be hidden is, and nobody waits for a
link. Here one core works through its products in order, each behind what it
reads, while exchanges go on, and gradients beside them in their buckets. Two at
once on the same links slow each other (``contention``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from planners.order import Phase
from planners.partition import AS_MADE, AS_READ, II, III, I
from planners.updates import LAYERS
from simulator.planning.contention import Contention, Way
from simulator.planning.costs import Costs
from simulator.planning.hollow_costs import HollowCosts
from simulator.planning.lines import Line, run
from simulator.planning.listed import Input, Lists, Moved
from simulator.planning.tables import Tables
from simulator.planning.ties import Ties

Needs = tuple[int, ...]
"""Lines that something waits for, by their numbers."""
GATHER, EXCHANGE = "all-gather", "all-to-all"


class Schedule:
    """Steps of layouts of one network on like cores, by the numbers of their nodes' states."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._contention = Contention(tables.curves)
        self._estimated = 0
        self._lists: dict[int, Lists] = {}
        self._known: dict[tuple[tuple[int, ...], float], float] = {}
        self._relaid: dict[tuple[int, int, float], float] = {}
        self._bytes: dict[tuple[int, int], float] = {}
        self._hollow = HollowCosts(tables)
        self.ties = Ties(tables)
        pairs = zip(tables.nodes, tables.graph, strict=True)
        self.nodes = [self._listed(costs, node.join) for costs, node in pairs]
        self.inputs = [
            [Input(edge, producer) for edge, producer in enumerate(node.producers)]
            for node in tables.graph
        ]

    @property
    def spent(self) -> int:
        """Nodes of all layouts that were estimated, and what took as long."""
        return self._estimated + self._hollow.spent + self.ties.spent

    def seconds(self, picks: Sequence[int], bucket_bytes: float | None = None) -> float:
        """What the first core's step takes, about; with buckets as the tables', or of this size.

        Found once; what is asked for again counts as often.
        """
        self._estimated += len(picks)
        full = self.tables.bucket_bytes if bucket_bytes is None else bucket_bytes
        key = tuple(picks), full
        if key not in self._known:
            lines = _Script(self, picks, full).write()
            never = any(line.seconds == math.inf for line in lines)  # what does not apply
            self._known[key] = math.inf if never else run(lines, self._contention)
        return self._known[key]

    def whole_bytes(self, edge: int, v: int) -> float:
        """Of the tensor that a node reads through an edge."""
        if (edge, v) not in self._bytes:
            self._bytes[edge, v] = self.tables.whole_bytes(edge, v)
        return self._bytes[edge, v]

    def gradient_bytes(self, v: int, pick: int) -> float:
        """What a core exchanges of a node's gradient."""
        costs = self.nodes[v]
        if costs.hollow[pick]:
            return self._hollow.gradient_bytes(v, pick)
        return costs.gradient_bytes[pick]

    def sums_s(self, v: int, pick: int, phase: Phase) -> float:
        """Seconds of a node's partial sums, of features or errors."""
        costs = self.nodes[v]
        if costs.hollow[pick]:
            return self._hollow.sums_s(v, pick, phase)
        return (costs.forward_sums_s if phase is Phase.FORWARD else costs.backward_sums_s)[pick]

    def moved(self, edge: int, v: int, made: int, read: int, *, forward: bool) -> Moved | None:
        """What re-laying the tensor of an edge takes, and its way; None where nothing moves.

        By the states of who made it and who reads it, ``forward`` for who reads it, else its
        errors for who made it. Found anew: who asks keeps it (``inputs``).
        """
        maker, reader = self.nodes[self.tables.graph[v].producers[edge]], self.nodes[v]
        held = [layout[made] for layout in maker.makes]
        other = [layout[read] for layout in reader.reads]
        (rows, columns, _), asked = (held, other) if forward else (other, held)
        changes = (rows & asked[II]) | (columns & asked[I])
        gathers = (rows | columns) & asked[III]
        if not changes and not gathers:
            return None
        way = (GATHER, gathers) if gathers else (EXCHANGE, changes)
        if maker.hollow[made] or reader.hollow[read]:
            return self._hollow.moved_s(edge, v, made, read, forward=forward), way
        part = reader.part_read[read] if forward else maker.part_made[made]
        return self.relaid_s(changes, gathers, self.whole_bytes(edge, v) * part), way

    def relaid_s(self, changes: int, gathers: int, size_bytes: float) -> float:
        """Seconds until a core has so many bytes, exchanged and gathered over sets of levels."""
        key = changes, gathers, size_bytes
        if key not in self._relaid:
            curves, pieces = self.tables.curves, 1 << gathers.bit_count()
            exchanged_s = curves.seconds(EXCHANGE, changes, size_bytes / pieces)
            self._relaid[key] = exchanged_s + curves.seconds(GATHER, gathers, size_bytes)
        return self._relaid[key]

    def _listed(self, costs: Costs, join: bool) -> Lists:
        if id(costs) not in self._lists:
            self._lists[id(costs)] = Lists.of(costs, AS_READ if join else AS_MADE)
        return self._lists[id(costs)]


class _Script:
    """The lines of one layout's step, in the order in which they are written."""

    def __init__(self, schedule: Schedule, picks: Sequence[int], full_bytes: float) -> None:
        self._schedule = schedule
        self._tables = schedule.tables
        self._graph = schedule.tables.graph
        self._picks = picks
        self._overlap = schedule.tables.execution.overlap
        self._gradients: dict[int, Needs] = {}
        """What each update waits for."""
        self._bucket: list[int] = []
        self._exchanged: list[int] = []
        self._bucket_bytes, self._full_bytes = 0.0, full_bytes
        self._stream: Needs = ()
        self._ties: dict[int, list[Needs]] = {}
        """What the gradient of a weight that others use, too, waits for besides."""
        self._everywhere = GATHER, (1 << schedule.tables.cores.levels) - 1
        self.lines: list[Line] = []

    def write(self) -> list[Line]:
        """All of them."""
        made = self._forward()
        if self._tables.execution.inference:
            return self.lines
        self._backward(made)
        new: dict[int, Needs] = {}
        for v in self._updated():
            lists = self._schedule.nodes[v]
            new[v] = self._add(lists.update_s[self._picks[v]], self._gradients.get(v, ()))
        for v, node in enumerate(self._graph):
            if node.tied is not None:
                _, seconds = self._tied_s(v, node.tied)
                self._add(seconds, new[node.tied], self._everywhere)
        return self.lines

    def _updated(self) -> Sequence[int]:
        """The nodes in the order of their updates: as gradients arrive, if nobody asks for less."""
        layers = range(len(self._graph))
        if self._tables.execution.update_order == LAYERS:
            return layers
        return [*(v for v in reversed(layers) if v not in self._exchanged), *self._exchanged]

    def _forward(self) -> list[Needs]:
        """What makes each node's features."""
        schedule, picks, add = self._schedule, self._picks, self._add
        made: list[Needs] = []
        for v, (lists, inputs, pick) in enumerate(
            zip(schedule.nodes, schedule.inputs, picks, strict=True)
        ):
            read = [self._relay(made[one.producer], one, v, forward=True) for one in inputs]
            product = add(lists.forward_s[pick], _all(read))
            sums_s = schedule.sums_s(v, pick, Phase.FORWARD)
            made.append(add(sums_s, product, lists.features[pick]))
        return made

    def _backward(self, made: Sequence[Needs]) -> None:
        schedule, picks, add = self._schedule, self._picks, self._add
        arrived: list[list[Needs]] = [[] for _ in made]
        for v in reversed(range(len(made))):
            node, lists, pick = self._graph[v], schedule.nodes[v], picks[v]
            product = add(lists.backward_s[pick], _all(arrived[v]) if arrived[v] else made[v])
            sums_s = schedule.sums_s(v, pick, Phase.BACKWARD)
            errors = add(sums_s, product, lists.errors[pick])
            if node.kind == "matmul":
                errors = add(lists.gradient_s[pick], errors)
            for one in schedule.inputs[v]:
                arrived[one.producer].append(self._relay(errors, one, v, forward=False))
            if not node.join and node.kind != "matmul":
                gradient = add(lists.gradient_s[pick], product)
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

    def _relay(self, needs: Needs, one: Input, v: int, *, forward: bool) -> Needs:
        """Re-lay the tensor of an input, for who reads it or, its errors, for who made it."""
        known = one.features if forward else one.errors
        states = self._picks[one.producer], self._picks[v]
        if states not in known:
            known[states] = self._schedule.moved(one.edge, v, *states, forward=forward)
        moved = known[states]
        return needs if moved is None else self._add(moved[0], needs, moved[1])

    def _put(self, v: int) -> None:
        """Add a gradient to the bucket, which goes when it is full."""
        if (owner := self._graph[v].tied) is not None:
            seconds, _ = self._tied_s(v, owner)
            needs = _all([self._gradients[v], self._stream])
            self._stream = self._add(seconds, needs, self._everywhere)
            self._ties.setdefault(owner, []).append(self._stream)
        size, way = self._schedule.gradient_bytes(v, self._picks[v]), self._way(v)
        if not size or not way[1]:
            return
        if self._bucket and self._way(self._bucket[0]) != way:  # others are not in its groups
            self._send()
        self._bucket.append(v)
        self._exchanged.append(v)
        self._bucket_bytes += size
        if self._bucket_bytes >= self._full_bytes:
            self._send()

    def _tied_s(self, v: int, owner: int) -> tuple[float, float]:
        return self._schedule.ties.seconds(v, self._picks[v], self._picks[owner])

    def _way(self, v: int) -> Way:
        return self._schedule.nodes[v].gradients[self._picks[v]]

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
