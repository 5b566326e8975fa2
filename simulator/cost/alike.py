"""Nodes that cost the same, whatever they are called and wherever they stand: blocks repeat."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from planners.order import Phase
from simulator.cost.operators import NodeOperators, Operator, Operators
from workloads import Node
from workloads.kept import once_for_each


@once_for_each
def sorts_of(step: Operators) -> tuple[int, ...]:
    """A number for each node of the partition graph: equal for nodes that cost the same."""
    known: dict[Hashable, int] = {}
    pairs = zip(step.graph, step.nodes, strict=True)
    return tuple(known.setdefault(sort_of(*pair), len(known)) for pair in pairs)


def sort_of(node: Node, operators: NodeOperators) -> Hashable:
    """Equal for nodes that cost the same in every state."""
    return _numbers_of(node), tuple(
        (phase, _numbers_of_operator(operator))
        for phase in Phase
        for operator in operators.of(phase)
    )


def _numbers_of(node: Node) -> Node:
    """A node without what says where it is, on which its costs do not depend."""
    return replace(node, name="", producers=(), main=None, tied=None, reads=())


def _numbers_of_operator(operator: Operator) -> Operator:
    return replace(
        operator,
        name="",
        node=0,
        reads=tuple(replace(tensor, tensor="") for tensor in operator.reads),
        writes=tuple(replace(tensor, tensor="") for tensor in operator.writes),
    )
