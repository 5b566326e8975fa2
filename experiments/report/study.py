"""A report: one page that holds everything, needs no network, and can be sent to somebody."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from experiments.explain.freeing import too_full
from experiments.explain.study import Explanation, explain, steps_of
from experiments.report import comparison
from experiments.report.page import page
from experiments.report.step import critical_path, memory, numbers, step, versus, what_helps
from experiments.results.difference import names_of_both
from experiments.studies.case import Case, plan_of, step_of
from experiments.studies.comparison import PUBLISHED_BATCH, comparisons
from experiments.studies.difference import difference
from experiments.studies.running.outputs import fastest_alone
from experiments.studies.running.runner import Runner
from experiments.studies.speedups import BASELINE
from hardware import Array
from planners import Planner, planner_name
from simulator import PUBLISHED, Execution
from workloads import Network


@dataclass(frozen=True, slots=True)
class Study:
    """What a report is about.

    ``mapped`` is the network whose plans are shown on every array, ``drawn``
    the one whose step under ``drawn_planner`` is, on the first array.
    ``rows`` are results to show beside them (None: those of the runner's store, if
    it has one), ``command`` is what was typed. Without a ``title`` the page has one
    that says what is compared.
    """

    arrays: tuple[Array, ...]
    networks: tuple[Network, ...]
    planners: tuple[str | Planner, ...]
    mapped: Network
    drawn: Network
    drawn_planner: str | Planner = "accpar"
    batch: int = PUBLISHED_BATCH
    execution: Execution = PUBLISHED
    metrics: tuple[str, ...] = ("time",)
    rows: Sequence[Mapping[str, Any]] | None = None
    command: str = ""
    title: str = ""


def report(
    study: Study, progress: Callable[[str], None] = lambda done: None, runner: Runner | None = None
) -> str:
    """The page, the same for the same study; ``progress`` hears of each row, and step, done.

    ``runner`` says where cases run and whether they are kept; the page shows what
    its store then holds. Raises KeyboardInterrupt where the comparison was interrupted.
    """
    compared = comparisons(
        study.arrays,
        study.networks,
        study.planners,
        study.batch,
        progress,
        execution=study.execution,
        metrics=study.metrics,
        runner=runner or Runner(),
    )
    if not all(result.complete for result in compared):
        raise KeyboardInterrupt
    rows = study.rows
    if rows is None and runner and runner.store:  # the speedups have the fastest devices alone
        alone = {fastest_alone(one).name for one in study.arrays if len(one.group.kinds) > 1}
        rows = [row for row in runner.store.rows() if row.get("array") not in alone]
    plans = [
        (
            study.execution.planned(array),
            [plan_of(_case(study, study.mapped, planner, array)) for planner in study.planners],
        )
        for array in study.arrays
    ]
    drawn = drawn_case(study)
    why = explain(drawn, progress=progress)
    parts = {
        "speedups": comparison.speedups(compared),
        "results": None if rows is None else comparison.results(rows),
        "numbers": numbers(why),
        "memory": memory(why),
        "path": critical_path(why),
        "helps": what_helps(why),
        "compare": _versus(study, why),
        "plans": comparison.plan_maps(study.mapped.name, plans),
        "timeline": step(str(drawn), why.timeline, folded=drawn.folded),
        "specs": comparison.specs(study.arrays),
        "made": comparison.made_by(study.command),
    }
    kept = {name: part for name, part in parts.items() if part is not None}
    return page(study.title or comparison.title(compared), comparison.message(compared), kept)


def steps(study: Study) -> int:
    """How often ``progress`` hears of something."""
    rows = len(study.arrays) * len(study.networks) * len(study.planners)
    return rows + steps_of(drawn_case(study), ())


def _versus(study: Study, why: Explanation) -> dict[str, Any] | None:
    """The drawn step beside data parallelism's, or, where it is that, another planner's."""
    case = why.case
    others = [planner for planner in study.planners if planner_name(planner) != case.planner_name]
    others.sort(key=lambda planner: planner_name(planner) != BASELINE)
    if not others:
        return None
    other = replace(case, planner=others[0])
    names = (other.planner_name, case.planner_name)
    steps = (step_of(other)[1], why.timeline)
    words = f"{case.network.name} on {case.array.name}, batch {case.batch}, {case.execution}"
    called = names_of_both(zip((other, case), steps, strict=True))
    found = versus(words, difference(names, steps), called)
    for name, step_ in zip(names, steps, strict=True):
        if full := too_full(step_.memory):
            found["said"] += f". {name} does not fit: {full}"
    return found


def drawn_case(study: Study) -> Case:
    """The step that is drawn."""
    return _case(study, study.drawn, study.drawn_planner, study.arrays[0])


def _case(study: Study, network: Network, planner: str | Planner, array: Array) -> Case:
    return Case(network, planner, array, study.batch, execution=study.execution)
