"""Everything that ``accelarray explain`` says about one step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from experiments.explain.against_accpar import otherwise
from experiments.explain.busiest import LinkKind, LinkUse, UnitUse, link_kinds, links, units
from experiments.explain.freeing import Freed, best_of, freed, steps_freeing, too_full
from experiments.explain.other_pipelines import PipelineSide, pipeline_side, steps_beside
from experiments.explain.paths import Part, Paths, by_block, by_kind, paths_of
from experiments.explain.whatif import KNOBS, Asked, Knob, Setting, turn, without
from experiments.results.error_band import banded
from experiments.studies.case import Case, Planned, in_one_stage, step_beside, step_of
from experiments.studies.occupancy import memory_fields
from experiments.studies.pipelining import no_effect
from experiments.studies.running.outputs import fastest_alone
from experiments.studies.speedups import BASELINE
from experiments.studies.step_numbers import axis_fields, computed, throughput
from experiments.terms import duration
from planners import AXES, Plan, PlanError
from simulator import Timeline, overflow

SEARCH = "search"


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """One step, and what it would be otherwise; times in seconds.

    ``data_parallel_s`` and ``fast_alone_s`` (the planner on the fastest kind of
    device alone) are None where they would be the step itself, or do not fit (``full``),
    ``overflow`` where the step fits in memory.
    """

    case: Case
    iteration_s: float
    paths: Paths
    blocks: tuple[Part, ...]
    kinds: tuple[Part, ...]
    link_kinds: tuple[LinkKind, ...]
    links: tuple[LinkUse, ...]
    units: tuple[UnitUse, ...]
    knobs: tuple[Knob, ...]
    settings: tuple[Setting, ...]
    data_parallel_s: float | None
    fast_alone_s: float | None
    overflow: str | None
    plan: Plan
    timeline: Timeline
    pipeline: PipelineSide | None = None
    answers: Mapping[str, Any] = field(default_factory=dict)
    """Error band, shares of the peak, exposed along axes, and memory by class, as in JSON."""
    frees: tuple[Freed, ...] = ()
    """What would make the fullest core less full, what frees most first."""
    otherwise: tuple[str, ...] = ()
    """Of the search's plan, what it does otherwise than AccPar, in sentences."""
    full: Mapping[str, str] = field(default_factory=dict)
    """What it is not compared with, as that does not fit: GiB that it needs, of what there is."""


def steps_of(case: Case, changes: Sequence[str]) -> int:
    """How often ``progress`` will hear of something."""
    others = (case.planner_name != BASELINE) + _has_faster_alone(case)
    beside = steps_freeing(case) + steps_beside(case)
    return 1 + len(KNOBS) + len(changes) + others + beside


def explain(
    case: Case,
    changes: Sequence[str] = (),
    asked: Asked | None = None,
    progress: Callable[[str], None] = lambda done: None,
) -> Explanation:
    """Simulate a case and what stands beside it; ``asked`` makes it, with ``changes`` or fewer.

    Where a search finds the stages, it searches them again for each new plan.
    """
    plan, timeline = step_of(case)
    paths = paths_of(timeline)
    progress(str(case.network.name))
    bounds = {bound: paths.share(ps) for bound, ps in paths.by_bound().items()}

    def knobs() -> Iterator[Knob]:
        for what in KNOBS:
            yield turn(what, case, plan, timeline, bounds)
            progress(f"{what} twice as fast")

    def settings() -> Iterator[Setting]:
        if asked is None:
            return
        for number, change in enumerate(changes):
            yield without(number, changes, asked, case, timeline)
            progress(f"without {change}")

    data_parallel, fast_alone, full = _beside(case, progress)
    return Explanation(
        case,
        timeline.iteration_s,
        paths,
        by_block(case.network, paths),
        by_kind(case.network, paths),
        tuple(link_kinds(timeline)),
        tuple(links(timeline)),
        tuple(units(timeline)),
        tuple(knobs()),
        tuple(settings()),
        data_parallel,
        fast_alone,
        overflow(case.network.name, case.planner_name, case.array.name, timeline.memory),
        plan,
        timeline,
        pipeline_side(case, plan, timeline, progress),
        {
            "error_band": banded(case, timeline.iteration_s),
            **asdict(throughput(case, timeline.iteration_s)),
            **computed(case, timeline),
            **axis_fields(case, timeline),
            **memory_fields(timeline),
        },
        freed(case, plan, timeline, progress),
        tuple(otherwise(in_one_stage(case), plan, timeline.iteration_s))
        if case.planner == SEARCH and plan.pipeline is None
        else (),
        full,
    )


def _beside(
    case: Case, progress: Callable[[str], None]
) -> tuple[float | None, float | None, dict[str, str]]:
    """Seconds of data parallelism and of the fastest devices alone; what of it does not fit."""
    data_parallel = fast_alone = None
    full = dict[str, str]()

    def seconds(what: str, other: Case) -> float | None:
        """Of a step to compare with; None, and why, where it does not fit in memory."""
        then = step_beside(other)[1]
        if said := too_full(then.memory):
            full[what] = said
            return None
        return then.iteration_s

    if case.planner_name != BASELINE:
        data_parallel = seconds("data parallelism", replace(in_one_stage(case), planner=BASELINE))
        progress(BASELINE)
    if _has_faster_alone(case):
        device, count = (alone := fastest_alone(case.array)).group.kinds[0]
        what = f"{case.planner_name} on the {count:,} {device.name} alone"
        with suppress(PlanError):  # axes or stages that are asked for are of the whole array
            fast_alone = seconds(what, replace(case, array=alone))
        progress("the fastest devices alone")
    return data_parallel, fast_alone, full


def _has_faster_alone(case: Case) -> bool:
    """Whether some devices are faster; a plan made for all of them would not fit on those."""
    return len(case.array.group.kinds) > 1 and not isinstance(case.planner, Planned)


def messages(result: Explanation) -> list[str]:
    """What to know about the plan, in sentences."""
    case, found = result.case, list[str]()
    ours = duration(result.iteration_s)
    if result.data_parallel_s is not None and result.data_parallel_s < result.iteration_s:
        name = "This plan" if case.planner == AXES else case.planner_name
        found.append(
            f"{name} is slower than data parallelism on this array: {ours} against "
            f"{duration(result.data_parallel_s)}, where each device takes its whole share of the "
            "batch at once."
        )
    if result.fast_alone_s is not None and result.fast_alone_s < result.iteration_s:
        device, count = fastest_alone(case.array).group.kinds[0]
        found.append(
            f"{case.planner_name} on the {count:,} {device.name} alone is faster than on the whole "
            f"array: {duration(result.fast_alone_s)} against {ours}."
        )
    run_s = result.timeline.makespan_s
    if run_s > result.iteration_s:
        found.append(
            f"The pipeline is never flushed: the step of {ours} is one of a run of "
            f"{duration(run_s)}, which critical path and tables of layers and links are of."
        )
    found += [
        f"{what[0].upper()}{what[1:]} does not fit: {said}." for what, said in result.full.items()
    ]
    if result.links and result.links[0].utilisation > 1:
        found.append(
            f"Links would carry {result.links[0].utilisation:.0%} of what they can: the stack "
            "hides more of these exchanges behind products than fits, so the step is too short. "
            "--overlap none hides nothing."
        )
    if idle := result.paths.idle_cores:
        found.append(f"{idle:,} of {result.paths.cores:,} cores are idle.")
    if result.overflow:
        found.append(f"{result.overflow}.")
        found += best_of(result.frees)
    found += no_effect(case, result.plan)
    if (alike := result.timeline.program.pipelines) > 1:
        found.append(f"Links are those of one of {alike} alike pipelines, which send as much each.")
    return [*found, *result.otherwise]
