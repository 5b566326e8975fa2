"""The cores of a plan that do unlike things: what each has of its stage's layers."""

from __future__ import annotations

from dataclasses import dataclass

from hardware import Array
from planners import Plan
from simulator.cost.roofline import core_of
from simulator.cost.training_operators import operators
from simulator.lowering.deployed import Deployed
from simulator.lowering.execution import Execution
from simulator.lowering.pipeline import cut_as_planned
from simulator.lowering.training_step import Writer
from simulator.lowering.unit_steps import UnitStep
from workloads import Network


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """A core of stage ``stage``, for which it stands for ``cores`` that do the same."""

    stage: int
    cores: int
    step: UnitStep


def sites(
    network: Network, plan: Plan, array: Array, execution: Execution, *, inference: bool = False
) -> list[Site]:
    """One for each class of cores under a plan of the deployed model; of a micro-batch, in stages.

    Raises PlanError where the plan does not fit.
    """
    planned, found = execution.planned(array), list[Site]()
    if plan.pipeline is None:
        return _of(0, Deployed(network, plan, planned, execution, folded=True), inference)
    cut = cut_as_planned(network, plan)
    for stage, of in enumerate(plan.pipeline.stages):
        place = plan.pipeline.places[of.place]
        part = planned.part(place.first, place.each)
        own = Deployed(cut.networks[stage], of.plan, part, execution, folded=True)
        found += _of(stage, own, inference)
    return found


def _of(stage: int, rules: Deployed, inference: bool) -> list[Site]:
    work = operators(rules.network)
    whole = rules.execution.whole_shards
    return [
        Site(
            stage,
            script.copies,
            UnitStep(
                work,
                [rules.held(v, shard) for v, shard in enumerate(script.shards)],
                core_of(script.device, whole=whole),
                inference=inference,
            ),
        )
        for script in Writer(rules).scripts
    ]
