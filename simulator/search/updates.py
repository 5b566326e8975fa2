"""Whether each layer's update is shared out: as it is asked for, or as its price says.

A layer's price is what it adds for the device that it takes longest: its exchange of
gradients, its update and, shared out, the gathering of its new weights, each alone on
the array. What of that is hidden is another matter, so ``auto`` simulates three
plans: every layer at its lower price, all replicated, and all shared out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
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
from simulator.sharding.mesh import Mesh
from workloads import Network


def with_updates(network: Network, plan: Plan, array: Array, execution: Execution) -> Plan:
    """The plan with its updates as ``execution.update`` asks; without that, as it is.

    Raises PlanError where nothing is updated, or by stages that do not wait for it.
    """
    if not execution.update:
        return plan
    if execution.inference:
        raise PlanError(f"--update {execution.update}: inference updates no weights; leave it out")
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
    found = dict.fromkeys((chosen, (), everywhere)) if chosen else [()]
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
    prices = [list(map(Prices(one).seconds, range(len(plan.nodes)))) for one in both]
    return updates_of(
        [
            Update.SHARDED if shared < whole else Update.REPLICATED
            for whole, shared in zip(*prices, strict=True)
        ]
    )


class Prices:
    """What every node's gradients, update and new weights take under some rules."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._lowest = list(_lowest(rules.root, ()))
        self._updated = {part: rules.updated(part) for part, _ in self._lowest}

    def seconds(self, v: int) -> float:
        """Of the device that they take longest, one after the other."""
        items = [Item(Kind.SUMS, Phase.GRADIENT, v, bucket=(v,))]
        if self._rules.plan.updates:
            items.append(Item(Kind.WEIGHTS, Phase.UPDATE, v, bucket=(v,)))
        at: dict[Mesh, float] = {}
        for exchange in (exchange for item in items for exchange in self._rules.exchanges(item)):
            where = exchange.part
            at[where] = at.get(where, 0.0) + alone_s(self._rules.wires, self._rules.carry(exchange))
        return max(
            math.fsum(at.get(one, 0.0) for one in above) + self._update_s(part, v)
            for part, above in self._lowest
        )

    def _update_s(self, part: Mesh, v: int) -> float:
        """The longest update of a part's devices."""
        device, updated = part.group.kinds[0][0], self._updated[part][v]
        shards = dict.fromkeys(one.shards[v] for one in part.classes(folded=True))
        lasts = (self._rules.product_ps(v, Phase.UPDATE, one, device, updated) for one in shards)
        return max(lasts, default=0) / PICOSECONDS


def _lowest(part: Mesh, above: tuple[Mesh, ...]) -> Iterator[tuple[Mesh, tuple[Mesh, ...]]]:
    """Parts without halves, with all above them and themselves."""
    here = (*above, part)
    if not part.halves:
        yield part, here
    for half in part.distinct():
        yield from _lowest(half, here)
