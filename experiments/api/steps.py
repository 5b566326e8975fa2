"""``accelarray.simulate``, ``plan``, ``explain`` and ``difference``: one step, or two."""

from __future__ import annotations

import os
from collections.abc import Sequence
from os import PathLike
from typing import Unpack, cast, overload

from experiments.api.argument_types import (
    ArrayLike,
    Changes,
    ExecutionLike,
    NetworkLike,
    PlannerLike,
    Progress,
    RunsOptions,
    StepOptions,
    explicit,
)
from experiments.api.requests import SHORT, cases_of, changed
from experiments.explain.traced import TraceDifferenceResult, traced
from experiments.output import UsageError
from experiments.results.difference import DifferenceResult, differing
from experiments.results.explanation import ExplanationResult, explained
from experiments.results.planned import PlanResult
from experiments.results.step import StepResult, stepped
from experiments.studies.case import Case, plan_of
from experiments.studies.runs.run import run_of


@explicit()
def simulate(
    network: NetworkLike,
    planner: PlannerLike | None = None,
    array: ArrayLike = "accpar-mixed",
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    set: Changes = (),  # noqa: A002  (the command's --set)
    folded: bool = True,
    **options: Unpack[RunsOptions],
) -> StepResult:
    """Plan one training step and simulate it; its plan and timeline come with it.

    Raises NetworkError, PlanError, SpecError, SimulationError, CollectiveError or UsageError.
    """
    asked = (network, [planner], array, batch, execution, set, options)
    (case,) = cases_of(*asked, folded=folded)
    return stepped(case, run=run_of(options))


@explicit()
def plan(
    network: NetworkLike,
    planner: PlannerLike | None = None,
    array: ArrayLike = "accpar-mixed",
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    set: Changes = (),  # noqa: A002
    **options: Unpack[StepOptions],
) -> PlanResult:
    """How a planner splits a network: a type and a share for each layer at each level."""
    (case,) = cases_of(network, [planner], array, batch, execution, set, options)
    return PlanResult(plan_of(case), case)


@explicit()
def explain(
    network: NetworkLike,
    planner: PlannerLike | None = None,
    array: ArrayLike = "accpar-mixed",
    batch: int | None = None,
    execution: ExecutionLike | None = None,
    *,
    set: Changes = (),  # noqa: A002
    progress: Progress | None = None,
    **options: Unpack[StepOptions],
) -> ExplanationResult:
    """Why a step takes as long as it does, what would help, and what each ``set`` brought."""
    changes = changed(set, options)
    rest = cast("StepOptions", {key: value for key, value in options.items() if key not in SHORT})

    def asked(changes: Sequence[str]) -> Case:
        (case,) = cases_of(network, [planner], array, batch, execution, changes, rest)
        return case

    return explained(asked(changes), changes, asked, progress)


@overload
def difference(first: StepResult, second: StepResult) -> DifferenceResult: ...


@overload
def difference(first: StepResult, *, trace: str | PathLike[str]) -> TraceDifferenceResult: ...


def difference(
    first: StepResult, second: StepResult | None = None, *, trace: str | PathLike[str] | None = None
) -> DifferenceResult | TraceDifferenceResult:
    """Where the difference between two steps of one network, array and batch comes from.

    Or between a step and a measured one: ``trace`` is the file of one rank that PyTorch's
    profiler wrote (.json, .json.gz). Raises UsageError for steps that cannot be compared.
    """
    if (second is None) == (trace is None):
        raise UsageError("difference: give another step, or a trace=FILE, one of the two")
    if second is None:
        return traced(first, os.fspath(trace or ""))
    return differing(first, second)
