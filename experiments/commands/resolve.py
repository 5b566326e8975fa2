"""What parsed arguments describe: arrays, networks, planners, steps and studies."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from experiments.api import inputs, requests
from experiments.output import UsageError
from experiments.studies.case import Case
from experiments.studies.options import MODEL_OPTIONS, first_array, parse_axes
from planners import Planner
from workloads import Network, is_later

DEFAULT_ARRAY = "accpar-mixed"
OPTIONS = (
    *MODEL_OPTIONS,
    *("transform", "objective", "communication", "strict_memory", "max_memory"),
)
RUN = ("metrics", "jobs", "store", "cluster")


def keywords_of(
    args: argparse.Namespace, function: Callable[..., Any], *without: str
) -> dict[str, Any]:
    """The arguments that a function of ``accelarray`` takes as keywords of the same names.

    Flags that are short for others are in ``set`` and ``transform`` already.
    """
    known = inspect.signature(function).parameters.keys() - {"attention", *requests.SHORT, *without}
    given: dict[str, Any] = _given(args, sorted(known))
    return given


def _given(args: argparse.Namespace, names: Sequence[str]) -> Any:
    values = {name: getattr(args, name, None) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def array_name(args: argparse.Namespace) -> str:
    """What ``--array`` names, or the papers' array for networks of the papers' time.

    Where arrays are varied, it is the first of them.
    """
    varied = getattr(args, "vary", None) or ()
    first = first_array(parse_axes([varied] if isinstance(varied, str) else varied))
    if first or args.array:
        return str(first or args.array)
    asked_for = [getattr(args, "network", None) or "", *(getattr(args, "networks", "")).split(",")]
    published = getattr(args, "execution", None) == "published"
    later = (name for name in asked_for if is_later(name.partition(":")[0].strip()))
    if not published and (name := next(later, None)):
        raise UsageError(
            f"{name}: name the array that trains it, as --array h100-cluster (see: list arrays); "
            f"without it is the papers' TPU array, --array {DEFAULT_ARRAY}"
        )
    return DEFAULT_ARRAY


def planner_of(args: argparse.Namespace) -> str | Planner:
    """What ``--planner``, ``--parallel`` or ``--plan`` (a file) asks for; PlanError."""
    given = [f"--{name}" for name in ("planner", "plan", "parallel") if getattr(args, name)]
    if not given:
        raise UsageError(
            "say how the step is split: --planner P (accelarray list planners), --parallel "
            "dp=8,tp=2, or --plan FILE"
        )
    if args.plan is not None and len(given) > 1:
        others = " or ".join(one for one in given if one != "--plan")
        raise UsageError(f"--plan is a whole plan: leave out {others}")
    return inputs.planner_of(args.planner, vars(args))


def case_of(args: argparse.Namespace) -> Case:
    """The step that the arguments describe."""
    (case,) = cases_of(args, [planner_of(args)])
    return case


def cases_of(
    args: argparse.Namespace, planners: Sequence[str | Planner], network: Network | None = None
) -> list[Case]:
    """A step under each of the planners, that the arguments describe."""
    return requests.cases_of(
        network or args.network,
        planners,
        array_name(args),
        args.batch,
        args.execution,
        args.set,
        _given(args, OPTIONS),
        folded=not getattr(args, "unfolded", False),
    )


def study_of(args: argparse.Namespace, first: Sequence[str] = ()) -> requests.Study:
    """Many steps, and where they run and are kept; planners ``first`` before those asked for."""
    return requests.study_of(
        args.networks,
        args.planners,
        array_name(args),
        args.batch,
        args.execution,
        args.set,
        _given(args, (*OPTIONS, *RUN)),
        folded=not getattr(args, "unfolded", False),
        first=first,
    )
