"""What layouts exchange where cores are left without some nodes, found when it is asked for.

The tables leave it out: their costs are numbers of levels, and here it matters which
core has what (``hollow``).
"""

from __future__ import annotations

from collections.abc import Hashable

from planners.order import Phase
from planners.partition import II, III, I
from simulator.planning.hollow import halved, relaid_s, sums_s, whole_of
from simulator.planning.states import Types
from simulator.planning.tables import Tables
from simulator.sharding.spec import backward_change, forward_change

SUMMED = {Phase.FORWARD: II, Phase.BACKWARD: III}
"""The type that leaves partial sums of features, and of errors."""
EFFORT = 50
"""Nodes that could be estimated while one exchange is made core by core, about."""


class HollowCosts:
    """Exchanges of hollow states, by the numbers of nodes and their states; each found once."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.spent = 0
        """Effort so far, in nodes that are estimated."""
        self._known: dict[Hashable, float] = {}

    def sums_s(self, v: int, pick: int, phase: Phase) -> float:
        """Seconds of a node's partial sums of features (forward) or errors (backward)."""
        tables = self.tables
        node, rules = tables.graph[v], tables.rules
        key = id(tables.nodes[v]), pick, phase
        if key not in self._known:
            self.spent += EFFORT
            whole, types = whole_of(node, tables.batch), self._types(v, pick)
            largest = halved([whole], [types], [node.join]).largest[0]
            shown = 0.0 if node.join else rules.shown(phase)
            size = shown and shown * rules.sum_bytes(v, largest, phase)
            how = rules.wires, tables.cores.first, tables.execution.algorithm
            self._known[key] = sums_s(whole, types, SUMMED[phase], size, *how)
        return self._known[key]

    def moved_s(self, edge: int, v: int, made: int, read: int, *, forward: bool) -> float:
        """Seconds of re-laying the tensor of an edge, by the states of its maker and its reader."""
        tables, graph = self.tables, self.tables.graph
        u, whole = graph[v].producers[edge], tables.whole_bytes(edge, v)
        layouts = (forward_change if forward else backward_change)(graph, u, v, edge)
        key = id(tables.nodes[u]), made, id(tables.nodes[v]), read, whole, forward, edge
        if key not in self._known:
            self.spent += EFFORT
            picks = {u: made, v: read}
            self._known[key] = relaid_s(
                [graph[one.node] for one in layouts],
                tables.batch,
                [self._types(one.node, picks[one.node]) for one in layouts],
                [one.by_type for one in layouts],
                whole,
                tables.rules.wires,
                tables.cores.first,
                tables.execution.algorithm,
            )
        return self._known[key]

    def gradient_bytes(self, v: int, pick: int) -> float:
        """What a core exchanges of a node's gradient; nothing where nobody else has one of it.

        Of one sample on four cores, with type I at both levels, one core has the gradient.
        """
        tables = self.tables
        key = id(tables.nodes[v]), pick
        if key not in self._known:
            types = self._types(v, pick)
            block = halved([whole_of(tables.graph[v], tables.batch)], [types])
            sharing = block.groups(tuple(kind is I for kind in types), block.busy((0,)))
            size = float(tables.nodes[v].gradient_bytes[pick])
            self._known[key] = size if sharing.size > 1 else 0.0
        return self._known[key]

    def _types(self, v: int, pick: int) -> Types:
        return self.tables.nodes[v].states.at(pick)
