"""Plans compared by what they take on the engine, the best kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import repeat

from hardware import Array
from planners import Plan, PlanError, Update
from planners.order import Phase
from planners.plan.updates import ARRIVAL
from simulator.collectives.algorithms import CollectiveError
from simulator.engine.operations import Program
from simulator.engine.picoseconds import PICOSECONDS
from simulator.engine.replay import run
from simulator.lowering.execution import Execution
from simulator.lowering.models import rules_of
from simulator.lowering.step.rules import Rules
from simulator.lowering.step.training_step import training_step
from simulator.search.layouts import is_filled
from simulator.search.states import whole_of
from simulator.search.updates import candidates
from simulator.sharding.mesh import parts
from workloads import Network, partition_graph


def splits_of(plan: Plan) -> bytes:
    """What a plan does, whatever it expects of it.

    Equal for plans that split and update alike and in one order, with buckets of one size.
    """
    updates = bytes(map([*Update].index, plan.updates))
    ordered = f"{plan.bucket_bytes!r} {plan.update_order}"
    return (plan.root.digest if plan.root else b"") + updates + ordered.encode()


REFUSED = (PlanError, CollectiveError)
"""A bus refuses halves that differ, an algorithm that is asked for groups that it is not for."""


@dataclass(slots=True)
class Judge:
    """Simulates plans of one step, each once, folded; of equally fast ones the first is best.

    With ``execution.strict_memory`` a plan that does not fit takes forever;
    ``smallest`` is then the one that needs least. ``spent`` counts the work:
    lines of all programs that were written. Where it chooses ``orders`` a plan that does not say
    in which order it updates weights may take either.
    """

    network: Network
    array: Array
    execution: Execution
    orders: bool = False
    best: Plan | None = None
    best_s: float = math.inf
    smallest: Plan | None = None
    unfit: int = 0
    """How many plans were not run, as they do not fit."""
    refused: str = ""
    """Why the last plan was that was refused."""
    spent: int = 0
    evaluations: int = 0
    _known: dict[bytes, float] = field(default_factory=dict)
    """By what plans ask for."""
    _least_over: float = math.inf
    _updated_s: float = 0.0

    def seconds(self, plan: Plan) -> float:
        """What a step takes; infinite where it is refused, or cannot be better than the best."""
        key = splits_of(plan)
        if key not in self._known:
            self.evaluations += 1
            self._known[key] = math.inf
            for updated in self._updated(plan):
                self._known[key] = min(self._known[key], self._better(updated))
        return self._known[key]

    def _better(self, plan: Plan) -> float:
        """What it takes in the better order of updates, if that may be the best.

        Updates come behind all else: no order is better by more than they take.
        """
        orders, least_s = self._ordered(plan), math.inf
        gain_s = self._updates_s(plan) if len(orders) > 1 else 0.0
        for one in orders:
            found = self._simulated(one)
            least_s = min(least_s, found)
            if found < self.best_s:
                self.best, self.best_s = one, found
            if found - gain_s >= self.best_s:
                break
        return least_s

    def _updates_s(self, plan: Plan) -> float:
        """What a core that had all weights would update, of the slowest kind."""
        if not self._updated_s:
            rules = self._rules(plan)
            wholes = [whole_of(node, plan.batch) for node in rules.graph]
            each = [
                sum(
                    rules.product_ps(v, Phase.UPDATE, whole, device)
                    for v, whole in enumerate(wholes)
                )
                for device, _ in self.array.group.kinds
            ]
            self._updated_s = max(each) / PICOSECONDS
        return self._updated_s

    def _updated(self, plan: Plan) -> Sequence[Plan]:
        """The ways to update weights that the execution model asks for."""
        try:
            return candidates(self.network, plan, self.array, self.execution)
        except REFUSED as why:
            self.refused = str(why)
            return ()

    def _ordered(self, plan: Plan) -> Sequence[Plan]:
        """The orders of its updates, if it is to be chosen.

        Of cores that are all alike, each with a part of every layer, none takes longer as
        gradients arrive: what they wait for is there in that order.
        """
        if not self.orders or plan.update_order or plan.updates:
            return (plan,)
        arrival = replace(plan, update_order=ARRIVAL)
        if not self.tied and is_filled(self.network, plan, self.array):
            return (arrival,)
        return arrival, plan

    @property
    def tied(self) -> bool:
        """Whether weights have a second use, to which new ones are sent behind all updates."""
        return any(node.tied is not None for node in partition_graph(self.network))

    def _simulated(self, plan: Plan) -> float:
        try:
            rules = self._rules(plan)
            if self._products_s(rules) >= self.best_s:
                return math.inf
            return self._taken(rules)
        except REFUSED as why:
            self.refused = str(why)
            return math.inf

    def _rules(self, plan: Plan) -> Rules:
        free = replace(self.execution, strict_memory=False)
        return rules_of(self.network, plan, self.array, free, folded=True)

    def _taken(self, rules: Rules) -> float:
        program = training_step(rules, memory=self.execution.strict_memory)
        self.spent += sum(len(worker.template) for worker in program.workers)
        return run(program).iteration_s if self._fits(rules.plan, program) else math.inf

    @staticmethod
    def _products_s(rules: Rules) -> float:
        """What the busiest device computes, one product after the other: no step takes less.

        Of a core with units each of them at least a part of that.
        """
        nodes = range(len(rules.graph))
        return max(
            sum(map(rules.node_ps, nodes, alike.shards, repeat(device), updated))
            / PICOSECONDS
            / (len(rules.units(device)) or 1)
            for part in parts(rules.root)
            if not part.halves
            for device, updated in [(part.group.kinds[0][0], rules.updated(part))]
            for alike in part.classes(folded=True)
        )

    def _fits(self, plan: Plan, program: Program) -> bool:
        if not self.execution.strict_memory:
            return True
        over = max((one.peak_bytes / one.capacity_bytes for one in program.memory), default=0.0)
        if over < self._least_over:
            self._least_over, self.smallest = over, plan
        fits = all(one.fits for one in program.memory)
        self.unfit += not fits
        return fits
