"""What would make a step's fullest core less full, each change by itself, counted and not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from experiments.studies.case import Case, Planned, plan_of
from planners import Plan, PlanError, Staging
from simulator import DeviceMemory, SimulationError, Timeline, memory_of
from simulator.cost.recompute import FULL, NONE, SELECTIVE, segments
from simulator.engine.occupancy import CLASSES
from simulator.search.updates import with_updates

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
    step, with the ``reason``. ``fits`` says whether all cores hold what they must then.
    """

    what: str
    peak_bytes: float | None
    frees_bytes: float | None
    fits: bool | None
    reason: str | None = None


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
    found = [*_smaller(case)]
    if not case.execution.inference:
        found += [*_updates(case), *_computed_again(case)]
    return found


def freed(
    case: Case, plan: Plan, timeline: Timeline, progress: Callable[[str], None]
) -> tuple[Freed, ...]:
    """Each change by itself, what frees most first and what cannot be last."""
    found = [_freed(change, plan, timeline) for change in changes_of(case)]
    if timeline.memory:
        progress("memory")
    known = [one for one in found if one.frees_bytes is not None]
    known.sort(key=lambda one: -(one.frees_bytes or 0.0))
    return (*known, *(one for one in found if one.frees_bytes is None))


def _freed(change: Change, plan: Plan, timeline: Timeline) -> Freed:
    case, now = change.case, fullest(timeline.memory)
    held = dict(zip(CLASSES, now.by_class, strict=True))
    share = sum(held[one] for one in change.of) / now.peak_bytes
    if change.of and share < LITTLE:
        *others, last = change.of
        words = f"{', '.join(others)} and {last} are {share:.1%} of the peak"
        return Freed(change.what, None, None, None, words)
    try:
        if change.anew or (plan.pipeline is not None and case.batch != plan.batch):
            other = plan_of(case)
        else:
            other = replace(plan, batch=case.batch)
            if case.execution.update in UPDATES:  # "auto" has chosen already
                other = with_updates(case.network, other, case.array, case.execution)
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


def _updates(case: Case) -> Iterator[Change]:
    """More of the update shared out."""
    now = case.execution.update
    for update in UPDATES[UPDATES.index(now) + 1 if now in UPDATES else 0 :]:
        yield Change(f"--update {update}", _with(case, update=update), STATES)


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
    if samples is None:
        many = 2 * staging.micro_batches
        yield _staged(case, f"--micro-batches {many}", SAMPLES, micro_batches=many)
    elif samples > 1 and not samples % 2:
        half = samples // 2
        yield _staged(case, f"--micro-batch {half}", SAMPLES, micro_batch=half)
    yield from _ways(case, staging)


def _ways(case: Case, staging: Staging) -> Iterator[Change]:
    """Half as many replicas, of twice as many parts or stages; positions split, too."""
    if staging.parallel is None:
        return
    planned = case.execution.planned(case.array)
    axes = staging.parallel.on(planned.group.size, planned.name)
    if axes.tp > 1 and not axes.sp:
        yield _parallel(case, replace(axes, sp=True))
    if not axes.dp % 2 and not axes.dp // 2 % axes.ep:
        yield _parallel(case, replace(axes, dp=axes.dp // 2, tp=2 * axes.tp))
        yield _parallel(case, replace(axes, dp=axes.dp // 2, pp=2 * axes.pp))


def _parallel(case: Case, axes: Any) -> Change:
    return _staged(case, f"--parallel {axes}", (), parallel=axes)


def _staged(case: Case, what: str, of: tuple[str, ...], **options: Any) -> Change:
    staging = replace(case.execution.staging or Staging(), **options)
    return Change(what, _with(case, staging=staging), of, anew=True)


def _with(case: Case, **options: Any) -> Case:
    return replace(case, execution=replace(case.execution, **options))
