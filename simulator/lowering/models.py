"""The execution models there are, by name."""

from __future__ import annotations

from hardware import Array
from planners import Plan, PlanError
from simulator.lowering.deployed import Deployed
from simulator.lowering.execution import Execution
from simulator.lowering.published import Published
from simulator.lowering.rules import Rules
from workloads import Network, partition_graph

MODELS: dict[str, type[Rules]] = {"published": Published, "deployed": Deployed}


def rules_of(
    network: Network, plan: Plan, array: Array, execution: Execution, *, folded: bool
) -> Rules:
    """The rules of an execution model for one step on an ``array`` of boards.

    Raises PlanError when the plan is for another network or array.
    """
    graph = partition_graph(network)
    if tuple(node.name for node in graph) != plan.nodes:
        raise PlanError(f"the plan is for {plan.network!r}, not for {network.name!r}")
    model, planned = MODELS[execution.model], execution.planned(array)
    return model(network, graph, plan, planned, execution, folded=folded)
