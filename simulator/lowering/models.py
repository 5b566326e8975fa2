"""The execution models there are, by name."""

from __future__ import annotations

from hardware import Array
from planners import Plan
from simulator.lowering.execution import Execution
from simulator.lowering.step.deployed import Deployed
from simulator.lowering.step.published import Published
from simulator.lowering.step.rules import Rules
from workloads import Network

MODELS: dict[str, type[Rules]] = {"published": Published, "deployed": Deployed}


def rules_of(
    network: Network, plan: Plan, array: Array, execution: Execution, *, folded: bool
) -> Rules:
    """The rules of an execution model for one step on an ``array`` of boards.

    Raises PlanError when the plan is for another network or array.
    """
    model, planned = MODELS[execution.model], execution.planned(array)
    return model(network, plan, planned, execution, folded=folded)
