"""How near a step is to what no plan undercuts, as commands say it."""

from __future__ import annotations

from typing import Any

from experiments.studies.case import Case
from planners import Plan
from simulator.planning.bounds import is_layout, step_bound

FIELDS = ("lower_bound_s", "lower_bound_covers", "step_gap")


def bound_fields(case: Case, plan: Plan, iteration_s: float) -> dict[str, Any]:
    """The lower bound of the step (s), what it covers, and how far the step lies above it.

    The gap is a fraction of the bound. All are None where no bound is known, as of pipelines.
    """
    return fields_of(case, iteration_s, layout=layout_of(case, plan))


def layout_of(case: Case, plan: Plan) -> bool | None:
    """Whether a plan is a layout (``is_layout``); None where no bound is known.

    That is of a pipeline, and of inference: bounds are of a whole training step.
    """
    if plan.pipeline is not None or case.execution.inference:
        return None
    return is_layout(case.network, plan, case.execution.planned(case.array))


def fields_of(case: Case, iteration_s: float, *, layout: bool | None) -> dict[str, Any]:
    """The same of a step of whose plan ``layout_of`` is known."""
    if layout is None:
        return dict.fromkeys(FIELDS)
    array = case.execution.planned(case.array)
    bound = step_bound(case.network, array, case.batch, case.execution, layout=layout)
    return {
        "lower_bound_s": bound and bound.seconds,
        "lower_bound_covers": bound and bound.covers,
        "step_gap": bound and bound.gap(iteration_s),
    }


def sentence(fields: dict[str, Any]) -> str:
    """What the bound is of; nothing where there is none."""
    if fields["lower_bound_s"] is None:
        return ""
    return f"Lower bound: of {fields['lower_bound_covers']}."
