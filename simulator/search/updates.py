"""Whether each layer's update is shared out: as it is asked for, or as its price says.

A layer's price is what it adds for the device that it takes longest: its exchange of
gradients, its update and, shared out, the gathering of its new weights, each alone on
the array. What of that is hidden is another matter, so ``auto`` simulates three
plans: every layer at its lower price, all replicated, and all shared out.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from hardware import Array
from planners import Pipeline, Plan, PlanError, Update
from planners.order import Item, Kind, Phase
from planners.plan.updates import Updates, updates_of
from simulator.engine.picoseconds import PICOSECONDS
from simulator.engine.replay import run
from simulator.lowering.execution import Execution
from simulator.lowering.models import rules_of
from simulator.lowering.pipeline.program import step_program
from simulator.lowering.step.rules import Rules
from simulator.lowering.step.training_step import alone_s
from simulator.sharding.mesh import Mesh, parts
from workloads import Network


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
    plans = candidates(network, plan, array, free)
    if len(plans) == 1:
        return plans[0]
    return min(plans, key=lambda one: run(step_program(network, one, array, free)).iteration_s)


AUTO = "auto"
"""Each layer's own choice."""


def candidates(network: Network, plan: Plan, array: Array, execution: Execution) -> list[Plan]:
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
    chosen = priced(network, plan, array, execution, everywhere)
    found = dict.fromkeys((chosen, (), everywhere))
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


def priced(
    network: Network, plan: Plan, array: Array, execution: Execution, everywhere: Updates
) -> Updates:
    """Every layer at its lower price."""
    both = [
        rules_of(network, replace(plan, updates=updates), array, execution, folded=True)
        for updates in ((), everywhere)
    ]
    prices = zip(*map(prices_of, both), strict=True)
    return updates_of(
        [Update.SHARDED if shared < whole else Update.REPLICATED for whole, shared in prices]
    )


def prices_of(rules: Rules) -> list[float]:
    """What every node's gradients, update and new weights take, one after the other (s).

    Of the device that they take longest.
    """
    updated = {part: rules.updated(part) for part in parts(rules.root) if not part.halves}

    def seconds(v: int) -> float:
        items = [Item(Kind.SUMS, Phase.GRADIENT, v, bucket=(v,))]
        if rules.plan.updates:
            items.append(Item(Kind.WEIGHTS, Phase.UPDATE, v, bucket=(v,)))
        at = defaultdict[Mesh, float](float)
        for exchange in (exchange for item in items for exchange in rules.exchanges(item)):
            at[exchange.part] += alone_s(rules.wires, rules.carry(exchange))

        def longest(part: Mesh) -> float:
            if part.halves:
                return at[part] + max(map(longest, part.distinct()))
            device, own = part.group.kinds[0][0], updated[part][v]
            shards = dict.fromkeys(one.shards[v] for one in part.classes(folded=True))
            lasts = (rules.product_ps(v, Phase.UPDATE, one, device, own) for one in shards)
            return at[part] + max(lasts, default=0) / PICOSECONDS

        return longest(rules.root)

    return [seconds(v) for v in range(len(rules.graph))]
