"""Between which neighbours in the order of the nodes a core surely waits for an exchange.

A core computes in order. Where a node reads the one before it, the exchange
between them delays its product; where it reads another, products in between may
hide it. A node without operators of its own only hands on what it gets: what
comes to it is waited for by the next product behind, if there is one in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simulator.cost.operators import NodeOperators
from workloads import Graph


@dataclass(frozen=True, slots=True)
class Waits:
    """By node: whether a core waits for what comes from the node before, and goes back to it.

    ``ends``: whether backward products, or the step's end, wait for the last node's sums;
    ``computes``: which nodes have a backward product of their own. Forward, ``made``: which nodes
    hand on what a product before made, their own or of one in a row behind; ``used``: for which a
    product waits, or the step's end.
    """

    forward: tuple[bool, ...]
    backward: tuple[bool, ...]
    ends: bool
    computes: tuple[bool, ...]
    made: tuple[bool, ...]
    used: tuple[bool, ...]


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
        tuple(starts),
        tuple(ends),
    )


def _handed(own: Sequence[bool], follows: Sequence[bool]) -> list[bool]:
    """Whether each has something of its own, or follows one of which that is so."""
    found: list[bool] = []
    for mine, behind in zip(own, follows, strict=True):
        found.append(mine or (behind and bool(found) and found[-1]))
    return found
