"""A pipeline in sentences, and the step with other micro-batches, cuts or schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from experiments.explain.freeing import too_full, with_stages
from experiments.studies.case import Case, Planned, step_of
from experiments.studies.pipelining import kinds_of, other_sends, pipeline_fields
from experiments.terms import duration
from planners import Axes, Plan, PlanError, Staging
from planners.axes.stage_cuts import blocks_of
from simulator import PICOSECONDS, SimulationError, Timeline
from simulator.analysis.stages import StageUse, bubble, stage_uses
from simulator.search.stages import PIPEDREAM, replicated_stages
from workloads import partition_graph


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
    return len(list(_changes(case, None, ())))


def pipeline_side(
    case: Case, plan: Plan, timeline: Timeline, progress: Callable[[str], None]
) -> PipelineSide | None:
    """What there is to say of a step in stages; None without any."""
    if plan.pipeline is None:
        return None
    uses = stage_uses(timeline)
    slowest = max(uses, key=lambda use: use.busy)
    found = []
    for what, changed in _changes(case, plan, uses):
        if isinstance(changed, str):
            found.append(Alternative(what, None, changed))
        else:
            try:
                then = step_of(changed)[1]
                full = too_full(then.memory)  # what does not fit has no time to compare with
                why = f"does not fit: {full}" if full else None
                found.append(Alternative(what, None if full else then.iteration_s, why))
            except (PlanError, SimulationError) as error:
                found.append(Alternative(what, None, str(error)))
        progress(what)
    layers = [plan.pipeline.layers(plan.nodes)[k] for k in slowest.stages]
    told = _sentences(layers, timeline, uses, slowest) if len(uses) > 1 else ()
    said = (*told, *other_sends(case.execution, timeline))
    return PipelineSide(pipeline_fields(plan, timeline)["pipeline"], said, tuple(found))


def _sentences(
    names: Sequence[Sequence[str]], timeline: Timeline, uses: list[StageUse], slowest: StageUse
) -> Iterator[str]:
    """Which stage is the slowest, and whether any waits; ``names`` are the slowest's layers."""
    layers = ", ".join(f"{some[0]} to {some[-1]}" for some in names)
    number = " and ".join(map(str, slowest.stages))
    kinds = kinds_of(timeline)
    on = f", {kinds[slowest.rank, slowest.replica]}" if len({*kinds.values()}) > 1 else ""
    per = min(slowest.busy, slowest.run_ps) / PICOSECONDS
    yield (
        f"Stage {number} ({layers}{on}) is the slowest: it is busy for "
        f"{duration(per)} of {duration(slowest.run_ps / PICOSECONDS)}. "
        f"The bubble is {bubble(uses):.1%} of its work."
    )
    receiving = max(uses, key=lambda use: use.receiving)
    if receiving.receiving:
        share = receiving.receiving / receiving.run_ps
        stages = " and ".join(map(str, receiving.stages))
        said = f"Stage {stages} waits for what it receives"
        if len(receiving.stages) > 1:
            said = f"Stages {stages} wait for what they receive"
        yield f"{said} for {share:.2%} of the run."
    else:
        yield "No stage is waiting for what it receives."


def _changes(
    case: Case, plan: Plan | None, uses: Sequence[StageUse]
) -> Iterator[tuple[str, Case | str]]:
    """What to try: other micro-batches, other cuts, another schedule.

    Without ``plan`` and ``uses`` as many are named, to be counted.
    """
    own, staging = case.planner == PIPEDREAM, case.execution.staging
    if own:
        staging = staging or Staging(micro_batches=case.array.group.size)
    elif staging is None or staging.is_open or isinstance(case.planner, Planned):
        return
    yield from _other_micro_batches(case, staging)
    slowest = max(uses, key=lambda use: use.busy, default=None)
    if own or staging.stages * staging.virtual > 1:
        ends = ("its first layer to the stage before", "its last layer to the next")
        for end, what in enumerate(ends):
            yield f"the slowest stage gives {what}", _moved(case, plan, slowest, end)
    if own:
        return
    axes = staging.parallel or Axes(pp=staging.stages, vp=staging.virtual)
    other = "zero-bubble" if staging.usual_schedule == "1f1b" else "1f1b"
    if axes.vp == 1 and axes.pp > 1 and not case.execution.inference:
        yield f"schedule {other}", with_stages(case, schedule=other)
    if staging.parallel and axes.pp > 1 and not staging.stage_hw:
        yield from _other_stages(case, axes, plan, uses)


def _other_stages(
    case: Case, axes: Axes, plan: Plan | None, uses: Sequence[StageUse]
) -> Iterator[tuple[str, Case | str]]:
    """Of named axes: twice as many stages at each place; a block from the slowest to the fastest.

    The last stage has the head, too: with as many blocks as the others it is the slowest.
    """
    blocks, stages = blocks_of(partition_graph(case.network)).firsts, axes.pp * axes.vp
    asked = case.execution.staging or Staging()
    usual = asked.schedule in ("", "interleaved") and not (asked.stage_layers or asked.cuts)
    if blocks and not len(blocks) % (2 * stages) and usual:
        more = replace(axes, vp=2 * axes.vp)
        yield f"--parallel {more}", with_stages(case, parallel=more)
    if axes.vp > 1 or len(blocks) <= stages:
        return
    if plan is None or plan.pipeline is None:
        yield "", ""
        return
    ends = pairwise((*plan.pipeline.firsts, len(plan.nodes)))
    counts = [sum(first <= block < end for block in blocks) for first, end in ends]
    by_busy = [use.rank for use in sorted(uses, key=lambda use: use.busy) if counts[use.rank]]
    counts[by_busy[0]] += 1
    counts[by_busy[-1]] -= 1
    changed = with_stages(case, cuts=(), stage_layers=tuple(counts))
    yield f"--stage-layers {','.join(map(str, counts))}", changed


def _other_micro_batches(case: Case, staging: Staging) -> Iterator[tuple[str, Case]]:
    """The next number of them; where their samples are said, half and twice as many of these."""
    axes = staging.parallel
    samples = staging.samples(axes.pp) if axes else None
    if axes is None or samples is None:
        counts = range(staging.micro_batches + 1, case.batch + 1)
        more = next((n for n in counts if not case.batch % n), 0)
        if more:
            yield f"{more} micro-batches", with_stages(case, micro_batches=more)
        return
    planned = case.execution.planned(case.array)
    dp = axes.dp or axes.on(planned.group.size, planned.name).dp
    for other in (samples // 2, 2 * samples):
        if other and not samples % min(other, samples) and not case.batch % (other * dp):
            yield f"micro-batches of {other}", with_stages(case, micro_batch=other)


def _moved(case: Case, plan: Plan | None, slowest: StageUse | None, end: int) -> Case | str:
    """The case with a cut one layer further; or why not."""
    if plan is None or plan.pipeline is None or slowest is None:
        return ""
    stage, firsts = slowest.stages[0], list(plan.pipeline.firsts)
    if stage + end >= len(firsts) or stage + end == 0:
        return "there is no such stage"
    firsts[stage + end] += 1 if end == 0 else -1
    ends = [*firsts, len(plan.nodes)]
    if any(first >= behind for first, behind in pairwise(ends)):
        return "the stage has no other layer"
    if case.planner != PIPEDREAM:
        return with_stages(case, cuts=tuple(plan.nodes[first] for first in firsts[1:]))
    staging = case.execution.staging or Staging(micro_batches=plan.pipeline.micro_batches)
    whole, places = replace(plan, pipeline=None), plan.pipeline.places
    try:
        made = replicated_stages(whole, case.network, case.array, staging, firsts, places)
    except PlanError as error:
        return str(error)
    return replace(case, planner=Planned(PIPEDREAM, made))
