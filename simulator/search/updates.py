"""Whether each layer's update is shared out: as it is asked for, or as the engine finds best.

Sharing out moves and computes less, but waits twice: for the sum of its gradients and for its
new weights. So it pays for large layers, and ``auto`` simulates three plans: large layers
shared out, all replicated, and all shared out.
"""

from __future__ import annotations

from dataclasses import replace

from hardware import Array
from planners import Pipeline, Plan, PlanError, Update
from planners.plan.updates import Updates, updates_of
from simulator.engine.replay import run
from simulator.lowering.execution import Execution
from simulator.lowering.pipeline.program import step_program
from workloads import Network, partition_graph


def check_update(execution: Execution) -> None:
    """Raise PlanError where inference is asked to share updates out, of which it has none."""
    if execution.inference and execution.update not in ("", Update.REPLICATED):
        said = f"--update {execution.update} (--zero)"
        raise PlanError(f"{said}: inference updates no weights; leave it out")


def with_updates(network: Network, plan: Plan, array: Array, execution: Execution) -> Plan:
    """The plan with its updates as ``execution.update`` asks; without that, as it is.

    Raises PlanError where nothing is updated, or by stages that do not wait for it.
    """
    check_update(execution)
    if not execution.update or execution.inference:
        return plan
    free = replace(execution, strict_memory=False)
    plans = candidates(network, plan, free)
    if len(plans) == 1:
        return plans[0]
    return min(plans, key=lambda one: run(step_program(network, one, array, free)).iteration_s)


AUTO = "auto"
"""What takes least of three ways."""
SMALL = 0.1
"""Of the mean layer's parameters: the gradients of less take latency, of which sharing out has
two."""


def candidates(network: Network, plan: Plan, execution: Execution) -> list[Plan]:
    """The plan with its updates as ``execution.update`` asks: of ``auto`` up to three ways.

    Of stages two: all of their layers, or none.
    """
    if not execution.update:
        return [plan]
    if plan.pipeline is not None:
        both = [Update.REPLICATED, Update.SHARDED]
        words = both if execution.update == AUTO else [Update(execution.update)]
        return [_in_stages(plan, plan.pipeline, word) for word in words]
    if execution.update != AUTO:
        return [replace(plan, updates=updates_of([Update(execution.update)] * len(plan.nodes)))]
    everywhere = updates_of([Update.SHARDED] * len(plan.nodes))
    found = dict.fromkeys((of_large_layers(network), (), everywhere))
    return [replace(plan, updates=updates) for updates in found]


def _in_stages(plan: Plan, pipeline: Pipeline, update: Update) -> Plan:
    """All layers of all stages alike."""
    stages = tuple(
        replace(
            stage, plan=replace(stage.plan, updates=updates_of([update] * len(stage.plan.nodes)))
        )
        for stage in pipeline.stages
    )
    return replace(plan, pipeline=replace(pipeline, stages=stages))


def of_large_layers(network: Network) -> Updates:
    """Shared out where a layer has a tenth of the mean layer's parameters, or more."""
    parameters = {layer.name: layer.parameters for layer in network.layers}
    each = [parameters.get(node.name, 0) for node in partition_graph(network)]
    least = SMALL * sum(each) / max(sum(one > 0 for one in each), 1)
    return updates_of([Update.SHARDED if one >= least else Update.REPLICATED for one in each])
