"""The cores of a plan that do unlike things: what each computes, and what waits for what.

Written by the rules that ``simulate`` writes a step by, so that it is the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from hardware import Array
from planners import Plan, PlanError
from simulator.cost.recompute import NONE
from simulator.cost.roofline import core_of
from simulator.lowering.execution import Execution
from simulator.lowering.pipeline.program import cut_as_planned
from simulator.lowering.schedules.registry import schedule_of
from simulator.lowering.step.deployed import Deployed
from simulator.lowering.step.training_step import Writer
from simulator.lowering.step.worker_program import WorkerProgram
from simulator.lowering.units.estimate import Needed, UnitStep
from workloads import Network


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """The cores of stage ``stage`` that do the same."""

    stage: int
    step: UnitStep


def sites(network: Network, plan: Plan, array: Array, execution: Execution) -> list[Site]:
    """One for each class of cores under a plan of the deployed model; of a micro-batch, in stages.

    Devices have units (``hardware.Units``), of which operators of ``sites`` are free. Raises
    PlanError where the plan does not fit.
    """
    if execution.recompute != NONE:
        raise PlanError(
            f"--recompute {execution.recompute}: units are not described for computing again"
        )
    planned, found = execution.planned(array), list[Site]()
    if plan.pipeline is None:
        return _of(0, Deployed(network, plan, planned, execution, folded=True))
    whole_batch = schedule_of(plan.pipeline.schedule).whole_batch
    cut = cut_as_planned(network, plan, inference=execution.inference)
    for stage, of in enumerate(plan.pipeline.stages):
        if of.plans:
            raise PlanError(f"stage {stage}: units of unlike replicas are not designed together")
        place = plan.pipeline.places[of.place]
        part = planned.part(place.first, place.each)
        own = Deployed(cut.networks[stage], of.plan, part, execution, folded=True)
        turns = place.round.count(0) * plan.pipeline.micro_batches // len(place.round)
        found += _of(stage, own, turns if whole_batch else 1)
    return found


def _of(stage: int, rules: Deployed, turns: int = 1) -> list[Site]:
    """Those of a replica of a stage, which updates its weights once in so many ``turns``."""
    writer = Writer(rules)
    for item in rules.items:
        writer.write(item)
    return [Site(stage, _step(rules, one, turns)) for one in writer.programs]


def _step(rules: Deployed, program: WorkerProgram, turns: int) -> UnitStep:
    """A program without its exchanges: who waits for one waits for what that waits for."""
    parts: list[Needed] = []
    place: list[tuple[int, ...]] = []
    for task in program.tasks:
        needs = tuple(dict.fromkeys(at for line in task.needs for at in place[line]))
        if task.parties:
            place.append(needs)
            continue
        place.append((len(parts),))
        parts.append(Needed(rules.operator_of[task.operation], needs))
    execution = rules.execution
    core = core_of(program.device, whole=execution.whole_shards, inference=execution.inference)
    held = [rules.held(v, s) for v, s in enumerate(program.shards)]
    return UnitStep(parts, held, core, turns)
