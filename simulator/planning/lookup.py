"""What lines cost, looked up thousands of times: each found once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from simulator.planning.line_costs import LineCosts, Moved
from simulator.planning.tables import Tables

Key = TypeVar("Key")
Made = TypeVar("Made")


class Memo(dict[Key, Made]):
    """What is made once for each key, when it is asked for."""

    def __init__(self, make: Callable[[Key], Made]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, key: Key) -> Made:
        found = self[key] = self._make(key)
        return found


@dataclass(frozen=True, slots=True)
class Input:
    """The ``edge``-th input of a node, and what it takes to re-lay its ``features`` and ``errors``.

    By the states of who made it and who reads it.
    """

    edge: int
    producer: int
    features: Memo[tuple[int, int], Moved | None]
    errors: Memo[tuple[int, int], Moved | None]


class Lookup:
    """By node, and by its state; of its inputs, by the states of both ends."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.costs = costs = LineCosts(tables)
        nodes = range(len(tables.graph))
        self.ahead = [Memo(partial(costs.ahead, v)) for v in nodes]
        self.back = [Memo(partial(costs.back, v)) for v in nodes]
        self.inputs = [
            [_input(costs, edge, v) for edge in range(len(tables.graph[v].producers))]
            for v in nodes
        ]
        self.tied = {v: node.tied for v, node in enumerate(tables.graph) if node.tied is not None}
        """Of nodes whose weight is another's, whose."""
        products = [min(lists.backward_s) > 0 for lists in costs.nodes]
        self.ordered = [
            all(products[u] for u in (v, *node.producers)) for v, node in enumerate(tables.graph)
        ]
        """Whose errors, where nothing is sent, go from product to product: not to joins."""


def _input(costs: LineCosts, edge: int, v: int) -> Input:
    features = partial(costs.moved, edge, v, forward=True)
    errors = partial(costs.moved, edge, v, forward=False)
    return Input(edge, costs.tables.graph[v].producers[edge], Memo(features), Memo(errors))
