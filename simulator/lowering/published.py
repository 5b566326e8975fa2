"""Lowering: a network and its plan to a program, under the published execution model.

Peak-rate computing, nothing overlaps, and each exchange of a split costs
bytes / (link bandwidth of one accelerator of that side), the slower side
deciding. Samples and channels are split in exact fractions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hardware import Array, Group, bisection_of
from planners import Plan, PlanError, Split
from planners.medium import check_medium
from planners.partition import WHOLE, Scale, Sizes, legal, shrunk, sizes
from planners.steps import Kind, Step, flops, received, training_steps
from simulator.cost.energy import computing_j, receiving_j
from simulator.engine.operations import COMPUTE_LEVEL, Branch, Leaf, Operation, Program
from simulator.engine.picoseconds import duration_ps
from workloads import Network, partition_graph

Exchanges = list[tuple[Operation, ...]]
"""Per step of the schedule, the exchanges of the splits above, top first."""


def lower(network: Network, plan: Plan, array: Array) -> Program:
    """The program of one training step.

    Raises PlanError when the plan was made for another network, or for an
    array that is bisected differently.
    """
    check_medium(array, plan)
    return _Lowering(network, plan, array).program()


class _Lowering:
    def __init__(self, network: Network, plan: Plan, array: Array) -> None:
        self.graph = partition_graph(network)
        if tuple(node.name for node in self.graph) != plan.nodes:
            raise PlanError(f"the plan is for {plan.network!r}, not for {network.name!r}")
        self.plan = plan
        self.array = array
        self.bisection = bisection_of(array)
        self.steps = training_steps(self.graph)
        self.operations: list[Operation] = []

    def program(self) -> Program:
        scales = (WHOLE,) * len(self.graph)
        root = self._descend(self.plan.root, self.array.group, scales, [()] * len(self.steps), 0)
        return Program(tuple(self.operations), root)

    def _descend(
        self,
        split: Split | None,
        group: Group,
        scales: Sequence[Scale],
        above: Exchanges,
        level: int,
    ) -> Branch | Leaf:
        if (split is None) != (group.size == 1):
            raise PlanError(f"the plan does not fit an array of this shape (at level {level})")
        if split is not None:
            self._check_types(split, scales, level)
        if split is None:
            return self._leaf(group, scales, above)
        sides = [half.group for half in self.bisection.halves(group)]
        if len(split.halves) == 1 and sides[0] != sides[1]:
            raise PlanError(f"the plan treats unlike halves as alike (at level {level})")
        exchanges = self._exchanges(split, group, scales, above, level)
        halves = [
            self._descend(half, side, kept, exchanges, level + 1)
            for half, side, kept in zip(
                split.halves, sides, shrunk(scales, split.partitions), strict=False
            )
        ]
        return Branch(level, (halves[0], halves[-1]))

    def _check_types(self, split: Split, scales: Sequence[Scale], level: int) -> None:
        for node, scale, kind in zip(self.graph, scales, split.types, strict=True):
            if kind not in legal(node, scale):
                raise PlanError(
                    f"the plan splits {node.name!r} ({node.kind}) by type {kind} at level {level}, "
                    f"which it cannot be; one of {', '.join(map(str, legal(node, scale)))}"
                )

    def _exchanges(
        self,
        split: Split,
        group: Group,
        scales: Sequence[Scale],
        above: Exchanges,
        level: int,
    ) -> Exchanges:
        """``above`` with this split's exchanges added; nothing to move, no exchange."""
        size = self._sizes(scales)
        element_bytes = self.array.group.arithmetic.element_bytes
        sides = self.bisection.halves(group)
        result = list(above)
        for i, step in enumerate(self.steps):
            if step.kind is Kind.COMPUTE:
                continue
            table = self.plan.communication
            first, second = received(step, self.graph, split.partitions, size, table)
            amounts = (first * element_bytes, second * element_bytes)
            if any(amounts):
                duration = max(
                    duration_ps(amount, side.link_bytes_per_s)
                    for amount, side in zip(amounts, sides, strict=True)
                )
                energy_j = receiving_j([side.group for side in sides], amounts)
                operation = self._add(step, level, duration, received=amounts, energy_j=energy_j)
                result[i] = (*result[i], operation)
        return result

    def _leaf(self, group: Group, scales: Sequence[Scale], above: Exchanges) -> Leaf:
        device = group.kinds[0][0]
        size = self._sizes(scales)
        operations: list[Operation] = []
        for step, exchanges in zip(self.steps, above, strict=True):
            if step.kind is Kind.COMPUTE:
                work = flops(step, size)
                duration = duration_ps(work, device.peak_flops_per_s)
                share = work / device.cores
                energy_j = computing_j(device, share)
                operations.append(
                    self._add(step, COMPUTE_LEVEL, duration, flops=share, energy_j=energy_j)
                )
            operations += exchanges
        return Leaf(device, tuple(operations), device.chips, device.cores_per_chip)

    def _sizes(self, scales: Sequence[Scale]) -> list[Sizes]:
        fused, batch = self.array.group.arithmetic.fused, self.plan.batch
        pairs = zip(self.graph, scales, strict=True)
        return [sizes(node, batch, scale, fused=fused) for node, scale in pairs]

    def _add(self, step: Step, level: int, duration: int, **amounts: Any) -> Operation:
        layer = self.graph[step.node].name
        if step.kind is Kind.BOUNDARY:
            layer += f" to {self.graph[step.consumer].name}"
        operation = Operation(
            len(self.operations), step.kind, step.phase, layer, level, duration, **amounts
        )
        self.operations.append(operation)
        return operation
