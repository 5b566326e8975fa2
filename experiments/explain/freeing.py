"""What would make the fullest core of a step less full, and what that costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from experiments.studies.case import Case, Planned, plan_of, simulated
from experiments.terms import duration
from planners import Plan, PlanError, Staging
from simulator import CollectiveError, DeviceMemory, SimulationError, Timeline, memory_of
from simulator.cost.recompute import FULL, NONE, SELECTIVE, segments
from simulator.engine.operations import CLASSES, readable
from simulator.search.updates import with_updates
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


def steps_freeing(case: Case) -> int:
    """How often ``freed`` calls its ``progress``."""
    changes = len({change.what for change in changes_of(case)})
    return changes + min(changes, PRICED)


def freed(
    case: Case, plan: Plan, timeline: Timeline, progress: Callable[[str], None]
) -> tuple[Freed, ...]:
    """Each change by itself, what frees most first and what cannot be last."""
    changes = {change.what: change for change in changes_of(case)}
    found = []
    for change in changes.values():
        found.append(_freed(change, plan, timeline))
        progress(change.what)
    found.sort(key=_least_last)
    fitting = [i for i, one in enumerate(found) if one.fits]
    full = too_full(timeline.memory) is not None
    for i, one in enumerate(found):
        if i >= PRICED and not (full and i in fitting[-GENTLE:]):
            continue
        if one.frees_bytes is not None and one.frees_bytes > 0:
            found[i] = _priced(one, changes[one.what], plan, timeline.iteration_s)
        if i < PRICED:
            progress(f"what {one.what} costs")
    found.sort(key=_least_last)
    return tuple(found)


def _least_last(one: Freed) -> float:
    return math.inf if one.frees_bytes is None else -one.frees_bytes


def _priced(one: Freed, change: Change, plan: Plan, now_s: float) -> Freed:
    """The same with the seconds that it costs; without bytes where there is no such step."""
    try:
        then_s = simulated(*_stepped(change, plan)).iteration_s
    except SimulationError:
        return one
    except PlanError as error:
        return Freed(one.what, None, None, None, str(error))
    as_many_s = then_s * plan.batch / change.case.batch
    return replace(one, seconds=as_many_s - now_s)


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
    case, staging = change.case, change.case.execution.staging
    anew = change.anew or (plan.pipeline is not None and case.batch != plan.batch)
    if anew or (staging and staging.stage_hw and case.execution.update):  # not of every one
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
    except (PlanError, SimulationError, CollectiveError) as error:
        return Freed(change.what, None, None, None, str(error))
    alike = [one for one in memory if one.capacity_bytes == now.capacity_bytes]
    peak_bytes = max(one.peak_bytes for one in alike or memory)
    if peak_bytes >= now.peak_bytes:
        more = peak_bytes - now.peak_bytes
        said = f"takes {readable(more)} more" if more else "frees nothing"
        return Freed(change.what, peak_bytes, None, None, said)
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
    if staging is None or staging.is_open:
        if not case.batch % 2:
            half, anew = case.batch // 2, not isinstance(case.planner, Planned)
            yield Change(f"--batch {half}", replace(case, batch=half), SAMPLES, anew=anew)
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
    others = [replace(axes, sp=True)] if axes.tp > 1 and not axes.sp else []
    if not axes.dp % 2 and not axes.dp // 2 % axes.ep:
        others.append(replace(axes, dp=axes.dp // 2, tp=2 * axes.tp))
        others.append(replace(axes, dp=axes.dp // 2, pp=2 * axes.pp))
    for other in others:
        yield _staged(case, f"--parallel {other}", (), parallel=other)


def _staged(case: Case, what: str, of: tuple[str, ...], **options: Any) -> Change:
    return Change(what, with_stages(case, **options), of, anew=True)


def with_stages(case: Case, **options: Any) -> Case:
    """The case with some options of its pipeline otherwise."""
    return _with(case, staging=replace(case.execution.staging or Staging(), **options))


def _with(case: Case, **options: Any) -> Case:
    return replace(case, execution=replace(case.execution, **options))
