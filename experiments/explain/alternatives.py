"""One step with one thing otherwise: less memory, another pipeline, AccPar's plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

from experiments.studies.case import Case, Planned, plan_of, simulated, step_of
from experiments.studies.pipelining import kinds_of, other_sends, pipeline_fields
from experiments.terms import duration
from hardware import Device
from planners import Axes, Objective, Plan, PlanError, Split, Staging, load_planner
from planners.axes.stage_cuts import blocks_of
from planners.plan.updates import bucket_words, update_order_words
from simulator import PICOSECONDS, DeviceMemory, SimulationError, Timeline, memory_of
from simulator.analysis.stages import StageUse, bubble, stage_uses
from simulator.cost.recompute import FULL, NONE, SELECTIVE, segments
from simulator.engine.operations import CLASSES, readable
from simulator.search.candidates import alone, lifted, mean_shares, planned, shared
from simulator.search.updates import with_updates
from workloads import partition_graph
from workloads.attention import attention_cores
from workloads.transforms import transformed

PRICED, GENTLE = 3, 2
"""Of changes that free memory, so many of those that free most are simulated, for what they cost;
where the step does not fit, so many of those that free least of what then fits, too."""
LITTLE = 0.05
"""Of the peak: what holds less is not counted with a change, which could free no more."""
STATES = ("weights", "optimizer", "gradients")
SAMPLES = ("activations", "logits", "buffers")
"""Classes that are for parameters, and those that are for samples."""
UPDATES = ("sharded", "gradients", "weights")
"""What of a replicated update is shared out, each with what stands before it."""


@dataclass(frozen=True, slots=True)
class Freed:
    """The step with one thing otherwise: its fullest core's peak, and how much less that is.

    Bytes of a core, as large as the one that is the fullest now; None where there is no such
    step, with the ``reason``. ``fits`` says whether all cores hold what they must then. Of
    the first few, ``seconds`` is how much longer the step takes.
    """

    what: str
    peak_bytes: float | None
    frees_bytes: float | None
    fits: bool | None
    reason: str | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        fits = "; then the step fits" if self.fits else "; the step does not fit then either"
        said = f"{self.what} frees {readable(self.frees_bytes or 0.0)}{fits}"
        if self.seconds is None:
            return said
        more = "longer" if self.seconds > 0 else "less"
        return f"{said}; it takes {duration(abs(self.seconds))} {more}"


class Change(NamedTuple):
    """A case with one option otherwise, which makes classes ``of`` memory less (none: all).

    Under the plan that there is, or planned anew.
    """

    what: str
    case: Case
    of: tuple[str, ...] = ()
    anew: bool = False


def changes_of(case: Case) -> list[Change]:
    """What is tried: none where the execution model has no memory."""
    if case.execution.model != "deployed":
        return []
    found = [*_smaller(case), *_fused(case)]
    if not case.execution.inference:
        now = case.execution.update
        more = UPDATES[UPDATES.index(now) + 1 if now in UPDATES else 0 :]
        found += [
            Change(f"--zero {1 + UPDATES.index(one)}", _with(case, update=one), STATES)
            for one in more
        ]
        found += _computed_again(case)
    return found


def freed(
    case: Case, plan: Plan, timeline: Timeline, progress: Callable[[str], None]
) -> tuple[Freed, ...]:
    """Each change by itself, what frees most first and what cannot be last."""
    changes = {change.what: change for change in changes_of(case)}
    found = []
    for change in changes.values():
        found.append(_freed(change, plan, timeline))
        progress(change.what)
    found.sort(key=lambda one: math.inf if one.frees_bytes is None else -one.frees_bytes)
    fitting = [i for i, one in enumerate(found) if one.fits]
    full = too_full(timeline.memory) is not None
    for i, one in enumerate(found):
        if i >= PRICED and not (full and i in fitting[-GENTLE:]):
            continue
        if one.frees_bytes is not None and one.frees_bytes > 0:
            change = changes[one.what]
            with suppress(PlanError, SimulationError):
                then_s = simulated(*_stepped(change, plan)).iteration_s
                as_many_s = then_s * case.batch / change.case.batch
                found[i] = replace(one, seconds=as_many_s - timeline.iteration_s)
        if i < PRICED:
            progress(f"what {one.what} costs")
    return tuple(found)


def best_of(frees: Sequence[Freed]) -> list[str]:
    """What frees most, and of what then fits what frees most and what costs least."""
    some = [one for one in frees if (one.frees_bytes or 0.0) > 0]
    fitting = [one for one in some if one.fits]
    told = [f"{one}." for one in dict.fromkeys([*some[:1], *fitting[:1]])]
    priced = [(one.seconds, one) for one in fitting if one.seconds is not None]
    if priced:
        _, least = min(priced, key=lambda pair: pair[0])
        if least not in (*some[:1], *fitting[:1]):
            told.append(f"Least time of those simulated: {least}.")
    return told


def _stepped(change: Change, plan: Plan) -> tuple[Case, Plan]:
    """The case of a change, and its plan: the same where that is one for it."""
    case = change.case
    if change.anew or (plan.pipeline is not None and case.batch != plan.batch):
        return case, plan_of(case)
    other = replace(plan, batch=case.batch)
    if case.execution.update in UPDATES:  # "auto" has chosen already
        other = with_updates(case.network, other, case.array, case.execution)
    return case, other


def _freed(change: Change, plan: Plan, timeline: Timeline) -> Freed:
    case, now = change.case, fullest(timeline.memory)
    held = dict(zip(CLASSES, now.by_class, strict=True))
    share = sum(held[one] for one in change.of) / now.peak_bytes
    if change.of and share < LITTLE:
        *others, last = change.of
        words = f"{', '.join(others)} and {last} are {share:.1%} of the peak"
        return Freed(change.what, None, None, None, words)
    try:
        _, other = _stepped(change, plan)
        memory = memory_of(case.network, other, case.array, case.execution, timeline.batches)
    except (PlanError, SimulationError) as error:
        return Freed(change.what, None, None, None, str(error))
    alike = [one for one in memory if one.capacity_bytes == now.capacity_bytes]
    peak_bytes = max(one.peak_bytes for one in alike or memory)
    fits = all(one.fits for one in memory)
    return Freed(change.what, peak_bytes, now.peak_bytes - peak_bytes, fits)


def fullest(memory: Sequence[DeviceMemory]) -> DeviceMemory:
    """The device, or stage, with the largest share of its capacity."""
    return max(memory, key=lambda one: one.peak_bytes / one.capacity_bytes)


def _fused(case: Case) -> Iterator[Change]:
    """Attention in one kernel, where it is in several."""
    unfused = any(len(core) > 1 for core in attention_cores(case.network))
    if unfused and not isinstance(case.planner, Planned):
        network = transformed(case.network, ["attention=fused"])
        yield Change("--attention fused", replace(case, network=network), SAMPLES, anew=True)


def too_full(memory: Sequence[DeviceMemory]) -> str | None:
    """What the fullest core needs of what it has, "131.00 GiB of 80.00 GiB"; None where all fit."""
    if all(one.fits for one in memory):
        return None
    most = fullest(memory)
    return f"{readable(most.peak_bytes)} of {readable(most.capacity_bytes)}"


def _computed_again(case: Case) -> Iterator[Change]:
    """More of forward computed again."""
    now, staging = case.execution.recompute, case.execution.staging
    more = [mode for mode in (SELECTIVE, FULL) if segments(case.network, mode)]
    if now != NONE:
        more = [mode for mode in more if mode == FULL != now]
    for mode in more:
        yield Change(f"--recompute {mode}", _with(case, recompute=mode), SAMPLES)
    if staging and staging.stages > 1 and not staging.recompute and now == NONE:
        yield _staged(case, "--recompute stages:all", SAMPLES, recompute="all")


def _smaller(case: Case) -> Iterator[Change]:
    """Fewer samples at a time, and more ways to split along axes."""
    staging = case.execution.staging
    if staging is None:
        if not case.batch % 2:
            half = case.batch // 2
            yield Change(f"--batch {half}", replace(case, batch=half), SAMPLES)
        return
    if isinstance(case.planner, Planned):
        return
    samples = staging.samples(staging.parallel.pp) if staging.parallel else None
    if samples is None and staging.parallel and staging.micro_batches == 1:
        yield _staged(case, "--micro-batch 1", SAMPLES, micro_batch=1)
    elif samples is None:
        many = 2 * staging.micro_batches
        yield _staged(case, f"--micro-batches {many}", SAMPLES, micro_batches=many)
    elif samples > 1 and not samples % 2:
        half = samples // 2
        yield _staged(case, f"--micro-batch {half}", SAMPLES, micro_batch=half)
        if half > 1:
            yield _staged(case, "--micro-batch 1", SAMPLES, micro_batch=1)
    yield from _ways(case, staging)


def _ways(case: Case, staging: Staging) -> Iterator[Change]:
    """Half as many replicas, of twice as many parts or stages; positions split, too."""
    if staging.parallel is None or staging.stage_hw:
        return
    planned = case.execution.planned(case.array)
    axes = staging.parallel.on(planned.group.size, planned.name)
    if axes.tp > 1 and not axes.sp:
        yield _parallel(case, replace(axes, sp=True))
    if not axes.dp % 2 and not axes.dp // 2 % axes.ep:
        yield _parallel(case, replace(axes, dp=axes.dp // 2, tp=2 * axes.tp))
        yield _parallel(case, replace(axes, dp=axes.dp // 2, pp=2 * axes.pp))


def _parallel(case: Case, axes: Axes) -> Change:
    return _staged(case, f"--parallel {axes}", (), parallel=axes)


def _staged(case: Case, what: str, of: tuple[str, ...], **options: Any) -> Change:
    return Change(what, _with_stages(case, **options), of, anew=True)


def _with_stages(case: Case, **options: Any) -> Case:
    return _with(case, staging=replace(case.execution.staging or Staging(), **options))


def _with(case: Case, **options: Any) -> Case:
    return replace(case, execution=replace(case.execution, **options))


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
    said = (*_sentences(layers, timeline, uses, slowest), *other_sends(case.execution, timeline))
    return PipelineSide(pipeline_fields(plan, timeline)["pipeline"], said, tuple(found))


def _sentences(
    names: Sequence[Sequence[str]], timeline: Timeline, uses: list[StageUse], slowest: StageUse
) -> Iterator[str]:
    """Which stage is the slowest, and whether any waits; ``names`` are the slowest's layers."""
    layers = ", ".join(f"{some[0]} to {some[-1]}" for some in names)
    number = " and ".join(map(str, slowest.stages))
    kinds = kinds_of(timeline)
    on = f", {kinds[slowest.rank, slowest.replica]}" if len({*kinds.values()}) > 1 else ""
    per = slowest.busy / PICOSECONDS
    yield (
        f"Stage {number} ({layers}{on}) is the slowest: it is busy for "
        f"{duration(per)} of {duration(slowest.run_ps / PICOSECONDS)}. "
        f"The bubble is {bubble(uses):.1%} of its work."
    )
    receiving = max(uses, key=lambda use: use.receiving)
    if receiving.receiving:
        share = receiving.receiving / receiving.run_ps
        stages = " and ".join(map(str, receiving.stages))
        yield f"Stage {stages} is waiting for what it receives for {share:.2%} of the run."
    else:
        yield "No stage is waiting for what it receives."


def _changes(
    case: Case, plan: Plan | None, uses: Sequence[StageUse]
) -> Iterator[tuple[str, Case | str]]:
    """What to try: other micro-batches, other cuts, another schedule.

    Without ``plan`` and ``uses`` as many are named, to be counted.
    """
    staging = case.execution.staging
    if staging is None or isinstance(case.planner, Planned):
        return
    yield from _other_micro_batches(case, staging)
    slowest = max(uses, key=lambda use: use.busy, default=None)
    if staging.stages * staging.virtual > 1:
        ends = ("its first layer to the stage before", "its last layer to the next")
        for end, what in enumerate(ends):
            yield f"the slowest stage gives {what}", _moved(case, plan, slowest, end)
    axes = staging.parallel or Axes(pp=staging.stages, vp=staging.virtual)
    other = "zero-bubble" if staging.usual_schedule == "1f1b" else "1f1b"
    if axes.vp == 1 and axes.pp > 1 and not case.execution.inference:
        yield f"schedule {other}", _with_stages(case, schedule=other)
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
        yield f"--parallel {more}", _with_stages(case, parallel=more)
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
    changed = _with_stages(case, cuts=(), stage_layers=tuple(counts))
    yield f"--stage-layers {','.join(map(str, counts))}", changed


def _other_micro_batches(case: Case, staging: Staging) -> Iterator[tuple[str, Case]]:
    """The next number of them; where their samples are said, half and twice as many of these."""
    axes = staging.parallel
    samples = staging.samples(axes.pp) if axes else None
    if axes is None or samples is None:
        counts = range(staging.micro_batches + 1, case.batch + 1)
        more = next((n for n in counts if not case.batch % n), 0)
        if more:
            yield f"{more} micro-batches", _with_stages(case, micro_batches=more)
        return
    planned = case.execution.planned(case.array)
    dp = axes.dp or axes.on(planned.group.size, planned.name).dp
    for other in (samples // 2, 2 * samples):
        if other and not samples % min(other, samples) and not case.batch % (other * dp):
            yield f"micro-batches of {other}", _with_stages(case, micro_batch=other)


def _moved(case: Case, plan: Plan | None, slowest: StageUse | None, end: int) -> Case | str:
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
    return _with_stages(case, cuts=cuts)


RIVAL = "accpar"
MOST_NAMES = 4
"""Layers that a sentence names."""


def otherwise(case: Case, plan: Plan, iteration_s: float) -> Iterator[str]:
    """A sentence for AccPar's step, and one for each thing that the plan does otherwise.

    AccPar is put on the same devices first, or given the same share; what is
    left of the difference is the layers' types, the size of buckets, and when weights are updated.
    """
    theirs, step = step_of(replace(case, planner=RIVAL))
    their_s = step.iteration_s
    yield f"{RIVAL} takes {duration(their_s)}, {their_s / iteration_s:.3f} times as long."
    like, said = _alike(case, plan, theirs)
    if like is not None:
        try:
            like_s = simulated(case, like).iteration_s
        except PlanError:
            return
        yield f"{said}: with that {RIVAL} takes {duration(like_s)} ({their_s / like_s:.3f} x)."
        theirs, their_s = like, like_s
    ordered = replace(plan, update_order="")
    waits_s = simulated(case, ordered).iteration_s if plan.update_order else iteration_s
    usual_s = waits_s
    if plan.bucket_bytes is not None:
        usual_s = simulated(case, replace(ordered, bucket_bytes=None)).iteration_s
    names = _relaid(plan.root, theirs.root, plan.nodes)
    if names:
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        yield (
            f"Other types or shares for {len(names)} of {len(plan.nodes)} layers "
            f"({', '.join(names[:MOST_NAMES])}{more}): {their_s / usual_s:.3f} x."
        )
    if plan.bucket_bytes is not None:
        words = bucket_words(plan.bucket_bytes)
        yield f"{words[0].upper()}{words[1:]}: {usual_s / waits_s:.3f} x."
    if plan.update_order:
        words = update_order_words(plan.update_order)
        yield f"{words[0].upper()}{words[1:]}: {waits_s / iteration_s:.3f} x."


def _alike(case: Case, plan: Plan, theirs: Plan) -> tuple[Plan | None, str]:
    """The rival's plan on the devices that work in a plan, or with its share, and what that is."""
    group = case.execution.planned(case.array).group
    used = _used(plan.root, case)
    if used is not None:
        device, size = used
        part = alone(case.execution.planned(case.array), device, size)
        objective = Objective.named(case.objective, case.communication)
        if part is None:
            return None, ""
        some = planned(load_planner(RIVAL), case.network, part, case.batch, objective)
        if some is None:
            return None, ""
        root = lifted(some.root, group, device, size, len(plan.nodes))
        what = "cores" if group.leaf == "core" else "boards"
        said = f"Only {size:,} {device.name} {what} of {group.size:,} work"
        return replace(some, root=root), said
    if len(group.kinds) > 1 and theirs.root is not None:
        shares = mean_shares(group, plan.root, 1.0)
        percents = ", ".join(
            f"{share:.1%} {device.name}"
            for share, (device, _) in zip(shares, group.kinds, strict=True)
        )
        said = f"One share for all layers ({percents})"
        return replace(theirs, root=shared(theirs.root, group, shares)), said
    return None, ""


def _used(split: Split | None, case: Case) -> tuple[Device, int] | None:
    """The one kind that works and how many of it, where others sit out."""
    group = case.execution.planned(case.array).group
    whole = group.size
    while split is not None and split.idle:
        (working,) = split.working
        group, split = group.halves()[working], (split.halves[0], split.halves[-1])[working]
    if group.size == whole or len(group.kinds) > 1:
        return None
    return group.kinds[0][0], group.size


def _relaid(ours: Split | None, theirs: Split | None, names: tuple[str, ...]) -> list[str]:
    """Layers that any split of one plan treats otherwise than that of the other."""
    found = set[int]()

    def compare(one: Split | None, other: Split | None) -> None:
        if one is None or other is None:
            return
        pairs = zip(one.partitions, other.partitions, strict=True)
        found.update(v for v, (mine, its) in enumerate(pairs) if mine != its)
        ends = (one.halves[0], one.halves[-1]), (other.halves[0], other.halves[-1])
        compare(ends[0][0], ends[1][0])
        if len(one.halves) > 1 or len(other.halves) > 1:
            compare(ends[0][1], ends[1][1])

    compare(ours, theirs)
    return [names[v] for v in sorted(found)]
