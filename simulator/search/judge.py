"""Plans compared by what they take on the engine, the best kept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hardware import Array
from planners import Objective, Plan, PlanError, Update
from planners.hierarchy.fixed_types import priced
from planners.plan.updates import ARRIVAL
from simulator.collectives.algorithms import CollectiveError
from simulator.engine.operations import Program
from simulator.engine.replay import run
from simulator.lowering.execution import Execution
from simulator.lowering.models import rules_of
from simulator.lowering.step.training_step import training_step
from simulator.search.updates import candidates
from workloads import Network


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
    lines of all programs that were written. With ``arrival`` a plan that does not say in which
    order it updates weights does so as gradients arrive.
    """

    network: Network
    array: Array
    execution: Execution
    arrival: bool = False
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

    def seconds(self, plan: Plan) -> float:
        """What a step takes; infinite where it is refused, or does not fit in strict memory."""
        key = splits_of(plan)
        if key not in self._known:
            self.evaluations += 1
            self._known[key] = math.inf
            for one in self._updated(plan):
                found = self._simulated(one)
                self._known[key] = min(self._known[key], found)
                if found < self.best_s:
                    self.best, self.best_s = one, found
        return self._known[key]

    def answer(self, objective: Objective, planner: str, nothing: str) -> Plan:
        """The best plan, priced; PlanError, with ``nothing`` and why, where there is none."""
        best = self.best or self.smallest
        if best is None:
            why = f": {self.refused}" if self.refused else ""
            raise PlanError(f"{nothing} on {self.array.name!r}{why}")
        return replace(priced(self.network, self.array, best, objective), planner=planner)

    def _updated(self, plan: Plan) -> Sequence[Plan]:
        """The ways to update weights that the execution model asks for."""
        found = candidates(self.network, plan, self.execution)
        if not self.arrival:
            return found
        return [
            one if one.updates or one.update_order else replace(one, update_order=ARRIVAL)
            for one in found
        ]

    def _simulated(self, plan: Plan) -> float:
        free, strict = replace(self.execution, strict_memory=False), self.execution.strict_memory
        try:
            rules = rules_of(self.network, plan, self.array, free, folded=True)
            program = training_step(rules, memory=strict)
            self.spent += sum(len(worker.template) for worker in program.workers)
            return run(program).iteration_s if self._fits(plan, program) else math.inf
        except REFUSED as why:
            self.refused = str(why)
            return math.inf

    def _fits(self, plan: Plan, program: Program) -> bool:
        if not self.execution.strict_memory:
            return True
        over = max((one.peak_bytes / one.capacity_bytes for one in program.memory), default=0.0)
        if over < self._least_over:
            self._least_over, self.smallest = over, plan
        fits = all(one.fits for one in program.memory)
        self.unfit += not fits
        return fits
