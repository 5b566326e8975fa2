"""What parsed arguments describe: arrays, networks, planners, steps and studies."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from experiments.face import asked, inputs
from experiments.face.forms import StepOptions, StudyOptions
from experiments.output import UsageError
from experiments.studies.case import Case, Planned
from experiments.studies.options import MODEL_OPTIONS, check_axes
from hardware import Array
from planners import AXES, PLANNERS, Plan, load_planner
from simulator import Execution
from workloads import is_later

DEFAULT_ARRAY = "accpar-mixed"
OPTIONS = (*MODEL_OPTIONS, "objective", "communication", "strict_memory", "max_memory")
RUN = ("metrics", "jobs", "store", "cluster")


def keywords_of(
    args: argparse.Namespace, function: Callable[..., Any], *without: str
) -> dict[str, Any]:
    """The arguments that a function of ``accelarray`` takes as keywords of the same names.

    Flags that are short for others are in ``set`` and ``transform`` already.
    """
    known = inspect.signature(function).parameters.keys() - {"attention", *asked.SHORT, *without}
    given: dict[str, Any] = _given(args, sorted(known))
    return given


def _given(args: argparse.Namespace, names: Sequence[str]) -> Any:
    values = {name: getattr(args, name, None) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def options_of(args: argparse.Namespace) -> StepOptions:
    """Options of both execution models, those that were given."""
    options: StepOptions = _given(args, OPTIONS)
    return options


def array_name(args: argparse.Namespace) -> str:
    """What ``--array`` names, or the papers' array for networks of the papers' time."""
    if args.array:
        return str(args.array)
    asked_for = [getattr(args, "network", None) or "", *(getattr(args, "networks", "")).split(",")]
    published = getattr(args, "execution", None) == "published"
    later = (name for name in asked_for if is_later(name.partition(":")[0].strip()))
    if not published and (name := next(later, None)):
        raise UsageError(
            f"{name}: name the array that trains it, as --array h100-cluster (see: list arrays); "
            f"without it is the papers' TPU array, --array {DEFAULT_ARRAY}"
        )
    return DEFAULT_ARRAY


def array_of(args: argparse.Namespace) -> Array:
    """The array that ``--array`` and ``--set`` describe."""
    return inputs.array_of(array_name(args), args.set)


def execution_of(args: argparse.Namespace, array: Array) -> Execution:
    """The execution model that the arguments describe, or else the one the array is for."""
    return inputs.execution_of(args.execution, options_of(args), array)


def planners_of(args: argparse.Namespace) -> list[str]:
    """The planners a comparison is asked for, each of them known; "all" are built in."""
    known = [*PLANNERS, *([AXES] if args.parallel else [])]
    chosen = inputs.names(args.planners, known, "planners")
    for planner in chosen:
        load_planner(planner)
    check_axes(chosen, options_of(args))
    return chosen


def planner_of(args: argparse.Namespace) -> str | Planned:
    """What ``--planner``, ``--parallel`` or ``--plan`` (a file) asks for; PlanError."""
    given = [f"--{name}" for name in ("planner", "plan", "parallel") if getattr(args, name)]
    if not given:
        raise UsageError(
            "say how the step is split: --planner P (accelarray list planners), --parallel "
            "dp=8,tp=2, or --plan FILE"
        )
    if args.plan is not None and len(given) > 1:
        raise UsageError(f"--plan is a whole plan: leave out {' or '.join(given[:1])}")
    chosen: str | Planned = str(args.planner or AXES)
    if args.plan is not None:
        plan = Plan.read(args.plan)
        chosen = Planned(plan.planner, plan)
    load_planner(chosen)
    check_axes([chosen], options_of(args))
    return chosen


def case_of(args: argparse.Namespace) -> Case:
    """The step that the arguments describe."""
    (case,) = cases_of(args, [planner_of(args)])
    return case


def cases_of(args: argparse.Namespace, planners: Sequence[str | Planned]) -> list[Case]:
    """A step under each of the planners, that the arguments describe."""
    return asked.cases_of(
        args.network,
        planners,
        array_name(args),
        args.batch,
        args.execution,
        args.set,
        options_of(args),
        folded=not getattr(args, "unfolded", False),
        transforms=args.transform,
    )


def study_of(args: argparse.Namespace, planners: Sequence[str] = ()) -> asked.Study:
    """Many steps, and where they run and are kept; ``planners`` come before those asked for."""
    options: StudyOptions = _given(args, (*OPTIONS, *RUN))
    return asked.study_of(
        args.networks,
        list(dict.fromkeys([*planners, *planners_of(args)])),
        array_name(args),
        args.batch,
        args.execution,
        args.set,
        options,
        folded=not getattr(args, "unfolded", False),
        transforms=args.transform,
    )
