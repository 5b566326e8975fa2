"""What a layout's lines cost: products and exchanges, by the states of the nodes they are of."""

from __future__ import annotations

from typing import NamedTuple

from planners.order import Phase
from planners.partition import AS_MADE, AS_READ, II, III, I
from simulator.planning.contention import Way
from simulator.planning.costs import Costs
from simulator.planning.hollow_costs import HollowCosts
from simulator.planning.listed import Lists
from simulator.planning.tables import Tables
from simulator.planning.ties import Ties

Moved = tuple[float, Way]
"""Seconds of what is re-laid, and which collective decides what it shares links with."""
GATHER, EXCHANGE = "all-gather", "all-to-all"


class Ahead(NamedTuple):
    """A node forward in one of its states: its products, and the sums of its features."""

    product_s: float
    sums_s: float
    sums: Way


class Back(NamedTuple):
    """Its way back: its products, the sums of its errors, its gradient, its new weights.

    Of the gradient, too, the bytes that are exchanged, and how; None where nothing is.
    """

    product_s: float
    sums_s: float
    sums: Way
    gradient_s: float
    gradient: tuple[float, Way] | None
    update_s: float


class LineCosts:
    """Of one network on like cores."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._lists: dict[int, Lists] = {}
        self._relaid: dict[tuple[int, int, float], float] = {}
        self._hollow = HollowCosts(tables)
        self.ties = Ties(tables)
        pairs = zip(tables.nodes, tables.graph, strict=True)
        self.nodes = [self._listed(costs, node.join) for costs, node in pairs]

    @property
    def spent(self) -> int:
        """Effort so far, in nodes that are estimated."""
        return self._hollow.spent + self.ties.spent

    def ahead(self, v: int, pick: int) -> Ahead:
        """A node forward."""
        lists = self.nodes[v]
        sums_s = self._sums_s(v, pick, Phase.FORWARD)
        return Ahead(lists.forward_s[pick], sums_s, lists.features[pick])

    def back(self, v: int, pick: int) -> Back:
        """A node's way back."""
        lists = self.nodes[v]
        sums_s = self._sums_s(v, pick, Phase.BACKWARD)
        gradient = self._gradient_bytes(v, pick), lists.gradients[pick]
        return Back(
            lists.backward_s[pick],
            sums_s,
            lists.errors[pick],
            lists.gradient_s[pick],
            gradient if gradient[0] and gradient[1][1] else None,
            lists.update_s[pick],
        )

    def _gradient_bytes(self, v: int, pick: int) -> float:
        """What a core exchanges of a node's gradient."""
        if self.nodes[v].hollow[pick]:
            return self._hollow.gradient_bytes(v, pick)
        return self.nodes[v].gradient_bytes[pick]

    def _sums_s(self, v: int, pick: int, phase: Phase) -> float:
        """Seconds of a node's partial sums, of features or errors."""
        costs = self.nodes[v]
        if costs.hollow[pick]:
            return self._hollow.sums_s(v, pick, phase)
        return (costs.forward_sums_s if phase is Phase.FORWARD else costs.backward_sums_s)[pick]

    def moved(self, edge: int, v: int, picks: tuple[int, int], *, forward: bool) -> Moved | None:
        """What re-laying the tensor of an edge takes, and its way; None where nothing moves.

        By the states of who made it and who reads it, ``forward`` for who reads it, else its
        errors for who made it.
        """
        made, read = picks
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
        return self._relaid_s(changes, gathers, self.tables.whole_bytes(edge, v) * part), way

    def _relaid_s(self, changes: int, gathers: int, size_bytes: float) -> float:
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
