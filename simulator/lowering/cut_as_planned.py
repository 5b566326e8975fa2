"""Whether a plan in stages fits a network, an array and a schedule, and the network so cut."""

from __future__ import annotations

from hardware import Array
from planners import Plan, PlanError
from planners.legality import check_nodes
from planners.plan import COPIES, Pipeline
from planners.plan.updates import kept_in_parts
from simulator.lowering.schedules.schedule import Schedule
from workloads import Cut, Network, NetworkError, cut


def check_updates(plan: Plan, pipeline: Pipeline, schedule: Schedule) -> None:
    """Raise PlanError for updates that are shared out where nobody waits for them."""
    shared = any(stage.plan.updates for stage in pipeline.stages)
    if plan.updates or (shared and not schedule.flushes):
        raise PlanError(
            f"the plan for {plan.network!r} shares out updates (--update): stages do so each by "
            f"its own plan, and where all wait for the update; {schedule.name!r} goes on meanwhile"
        )
    in_parts = any(kept_in_parts(stage.plan.updates) for stage in pipeline.stages)
    stages = f"{many} stages" if (many := len(pipeline.stages)) > 1 else "one stage"
    if in_parts and (len(pipeline.stages) > 1 or schedule.name != "1f1b"):
        raise PlanError(
            "zero=3 gathers weights for one micro-batch after the other (one stage, 1f1b): with "
            f"{stages} and schedule {schedule.name!r} take zero=2"
        )


def cut_as_planned(network: Network, plan: Plan, *, inference: bool = False) -> Cut:
    """The network in the plan's stages; raises PlanError where it cannot be cut so.

    In inference weights that two stages use are in both, and nothing is summed.
    """
    pipeline = plan.pipeline
    if pipeline is None:
        raise PlanError(f"the plan for {plan.network!r} has no stages")
    try:
        found = cut(network, pipeline.firsts)
    except NetworkError as error:
        raise PlanError(str(error)) from None
    check_nodes(plan, network.name, found.graph)
    if found.ties and not pipeline.tied and not inference:
        tie = found.ties[0]
        raise PlanError(
            f"the cut separates {found.graph[tie.user].name!r} (stage {tie.target}) from "
            f"{found.graph[tie.owner].name!r} (stage {tie.source}), whose weights it uses: say "
            f"who sums their gradients (--tied {COPIES}: both stages keep the weights), or cut "
            "elsewhere"
        )
    return found


def check_places(pipeline: Pipeline, array: Array) -> None:
    """Raise PlanError for places beyond an array's end."""
    size = array.group.size
    end = max(place.first + place.count for place in pipeline.places)
    if end > size:
        raise PlanError(
            f"the stages need {end} accelerators; {array.name!r} has {size} (cores, under the "
            "deployed model)"
        )
