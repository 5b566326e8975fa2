"""Costs of nodes and edges as numbers that are read one at a time, a few hundred a layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from planners.partition import AS_READ, II, III, I, PartitionType
from simulator.planning.contention import Way
from simulator.planning.costs import Costs
from simulator.planning.states import layouts_by_level

REDUCE = "all-reduce"


@dataclass(frozen=True, slots=True)
class Lists:
    """A node's costs by state, as numbers that are read one at a time."""

    forward_s: list[float]
    backward_s: list[float]
    gradient_s: list[float]
    update_s: list[float]
    forward_sums_s: list[float]
    backward_sums_s: list[float]
    gradient_bytes: list[float]
    features: list[Way]
    """The all-reduces of its partial sums of features, of errors, and of its gradient."""
    errors: list[Way]
    gradients: list[Way]
    hollow: list[bool]
    part_read: list[float]
    part_made: list[float]
    reads: list[list[int]]
    """By layout (rows, columns, whole) and state, the levels at which its input has it."""
    makes: list[list[int]]
    """The same of its output."""

    @staticmethod
    def of(costs: Costs, made: Sequence[PartitionType]) -> Lists:
        """By its type at a level a node's output is held there as ``made`` says."""

        def reduced(kind: PartitionType) -> list[Way]:
            return [(REDUCE, mask) for mask in costs.states.masks[kind].tolist()]

        return Lists(
            costs.forward_s.tolist(),
            costs.backward_s.tolist(),
            costs.gradient_s.tolist(),
            costs.update_s.tolist(),
            costs.forward_sums_s.tolist(),
            costs.backward_sums_s.tolist(),
            costs.gradient_bytes.tolist(),
            reduced(II),
            reduced(III),
            reduced(I),
            costs.hollow.tolist(),
            costs.reads.tolist(),
            costs.makes.tolist(),
            [one.tolist() for one in layouts_by_level(costs.states, AS_READ)],
            [one.tolist() for one in layouts_by_level(costs.states, made)],
        )
