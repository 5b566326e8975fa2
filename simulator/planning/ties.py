"""What layouts exchange of weights that are used twice, found when it is asked for.

A table of words that is the output head, too, is cut by the types of both. Where these cut
it otherwise, its gradient goes from the later use to the owner, and the new weight back.
"""

from __future__ import annotations

from simulator.planning.hollow import in_turn_s, part_of, whole_of
from simulator.planning.hollow_costs import EFFORT
from simulator.planning.tables import Tables
from simulator.sharding.blocks import Shards
from simulator.sharding.redistribute import PartialSums, redistribute
from simulator.sharding.spec import tied_changes, tied_gradient

Both = tuple[float, float]
"""Seconds of the gradient on its way to the owner, and of the new weight on its way back."""


class Ties:
    """Exchanges between later uses of weights and their owners, by their states; found once."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.spent = 0
        """Effort so far, in nodes that are estimated."""
        self._known: dict[tuple[int, int, int], Both] = {}

    def seconds(self, user: int, pick: int, owner_pick: int) -> Both:
        """Each alone, and nothing where both cut it alike: its gradient joins the owner's then."""
        key = user, pick, owner_pick
        if key not in self._known:
            self.spent += EFFORT
            self._known[key] = self._found(*key)
        return self._known[key]

    def _found(self, user: int, pick: int, owner_pick: int) -> Both:
        tables, rules = self.tables, self.tables.rules
        graph, owner = tables.graph, tables.graph[user].tied or 0
        nodes, picks = (user, owner), (pick, owner_pick)
        types = [tables.nodes[v].states.at(one) for v, one in zip(nodes, picks, strict=True)]
        part = part_of([graph[v] for v in nodes], tables.batch, types, tables.cores.first)
        arithmetic = tables.cores.array.group.arithmetic
        whole = rules.tied_bytes(user, whole_of(graph[user], tables.batch))
        new = whole * arithmetic.weight_bytes / arithmetic.gradient_bytes

        def size(shards: Shards) -> float:
            return rules.tied_bytes(user, shards[0])

        there, again = tied_changes(graph, user, (0, 1))
        sums = PartialSums((0,), tied_gradient(0, 1), size).complete(part)
        forth = sums + redistribute(there, part, whole)
        back = redistribute(again, part, new)
        how = rules.wires, tables.execution.algorithm
        return in_turn_s(forth, *how), in_turn_s(back, *how)
