"""What explains a pipeline: its bubble, its slowest stage, and what another cut would bring."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from experiments.studies.case import Case, Planned, step_of
from experiments.studies.pipelining import pipeline_fields
from planners import Plan, PlanError, Staging
from simulator import PICOSECONDS, SimulationError, Timeline
from simulator.analysis.stages import StageUse, bubble, stage_uses


@dataclass(frozen=True, slots=True)
class Alternative:
    """The step with one thing otherwise (seconds; None where there is none, with the reason)."""

    what: str
    seconds: float | None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class PipelineSide:
    """A pipeline's fields, in sentences, and beside it what else could be done."""

    fields: dict[str, Any]
    sentences: tuple[str, ...]
    alternatives: tuple[Alternative, ...]


def steps_beside(case: Case) -> int:
    """How many steps are simulated beside a pipeline."""
    return len(list(_changes(case, None, None)))


def pipeline_side(
    case: Case, plan: Plan, timeline: Timeline, progress: Callable[[str], None]
) -> PipelineSide | None:
    """What there is to say of a step in stages; None without any."""
    if plan.pipeline is None:
        return None
    uses = stage_uses(timeline)
    slowest = max(uses, key=lambda use: use.busy)
    found = []
    for what, changed in _changes(case, plan, slowest):
        found.append(_alternative(what, changed))
        progress(what)
    said = tuple(_sentences(plan, timeline, uses, slowest))
    return PipelineSide(pipeline_fields(plan, timeline)["pipeline"], said, tuple(found))


def _sentences(
    plan: Plan, timeline: Timeline, uses: list[StageUse], slowest: StageUse
) -> Iterator[str]:
    pipeline = plan.pipeline
    if pipeline is None:
        return
    names = [pipeline.layers(plan.nodes)[k] for k in slowest.stages]
    layers = ", ".join(f"{some[0]} to {some[-1]}" for some in names)
    number = " and ".join(map(str, slowest.stages))
    per = slowest.busy / PICOSECONDS
    yield (
        f"Stage {number} ({layers}) is the slowest: it works {per:.6g} s of "
        f"{timeline.makespan_s:.6g} s, and waits for {bubble(uses):.1%} of that (the bubble)."
    )
    receiving = max(uses, key=lambda use: use.receiving)
    if receiving.receiving:
        share = receiving.receiving / timeline.makespan_ps
        stages = " and ".join(map(str, receiving.stages))
        yield f"Sends are exposed for up to {share:.2%} of the run (stage {stages} waits for them)."
    else:
        yield "Nobody waits while something is sent."


def _changes(
    case: Case, plan: Plan | None, slowest: StageUse | None
) -> Iterator[tuple[str, Case | str]]:
    """What to try: other micro-batches, other cuts, another schedule."""
    staging = case.execution.staging
    if staging is None or isinstance(case.planner, Planned):
        return
    yield from _other_micro_batches(case, staging)
    if staging.stages * staging.virtual > 1:
        for what, end in (
            ("its first layer to the stage before", 0),
            ("its last layer to the next", 1),
        ):
            yield f"the slowest stage gives {what}", _moved(case, staging, plan, slowest, end)
    other = "zero-bubble" if staging.usual_schedule == "1f1b" else "1f1b"
    if staging.virtual == 1 and staging.stages > 1:
        yield f"schedule {other}", _with(case, replace(staging, schedule=other))


def _other_micro_batches(case: Case, staging: Staging) -> Iterator[tuple[str, Case]]:
    """The next number of them; where their samples are said, half and twice as many of these."""
    axes = staging.parallel
    samples = staging.samples(axes.pp) if axes else None
    if axes is None or samples is None:
        counts = range(staging.micro_batches + 1, case.batch + 1)
        more = next((n for n in counts if not case.batch % n), 0)
        if more:
            yield f"{more} micro-batches", _with(case, replace(staging, micro_batches=more))
        return
    planned = case.execution.planned(case.array)
    dp = axes.on(planned.group.size, planned.name).dp
    for other in (samples // 2, 2 * samples):
        if other and not samples % min(other, samples) and not case.batch % (other * dp):
            yield f"micro-batches of {other}", _with(case, replace(staging, micro_batch=other))


def _with(case: Case, staging: Staging) -> Case:
    return replace(case, execution=replace(case.execution, staging=staging))


def _moved(
    case: Case, staging: Staging, plan: Plan | None, slowest: StageUse | None, end: int
) -> Case | str:
    """The case with a cut one layer further; or why not."""
    if plan is None or plan.pipeline is None or slowest is None:
        return ""
    stage, firsts = slowest.stages[0], list(plan.pipeline.firsts)
    if stage + end >= len(firsts) or stage + end == 0:
        return "there is no such stage"
    firsts[stage + end] += 1 if end == 0 else -1
    cuts = tuple(plan.nodes[first] for first in firsts[1:])
    if len(set(firsts)) < len(firsts) or firsts != sorted(firsts):
        return "the stage has no other layer"
    return _with(case, replace(staging, cuts=cuts))


def _alternative(what: str, changed: Case | str) -> Alternative:
    if isinstance(changed, str):
        return Alternative(what, None, changed)
    try:
        return Alternative(what, step_of(changed)[1].iteration_s)
    except (PlanError, SimulationError) as error:
        return Alternative(what, None, str(error))
