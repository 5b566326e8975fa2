"""How near a step is to what no plan undercuts, as commands say it."""

from __future__ import annotations

from typing import Any

from experiments.studies.case import Case
from planners import Plan
from simulator import Timeline
from simulator.search.bounds import StepBound, is_layout, step_bound
from simulator.search.stages import stages_bound

FIELDS = ("lower_bound_s", "lower_bound_covers", "step_gap")
NEAR = 1.0
"""A bound of which the step is further above certifies nothing, and is not given."""
NOT_NEAR = "no plan: the step's work alone is known, and is less than half of the step"


def bound_fields(case: Case, plan: Plan, timeline: Timeline) -> dict[str, Any]:
    """The lower bound of the step (s), what it covers, and how far the step lies above it.

    The gap is a fraction of the bound. All are None where no bound is known; where none
    is near (``NEAR``) what it covers says so.
    """
    if plan.pipeline is not None:
        return _fields(stages_bound(timeline), timeline.iteration_s)
    layout = layout_of(case, plan)
    return fields_of(case, timeline.iteration_s, layout=layout, bucket_bytes=plan.bucket_bytes)


def layout_of(case: Case, plan: Plan) -> bool | None:
    """Whether a plan is a layout (``is_layout``); None of a pipeline, which has other bounds."""
    if plan.pipeline is not None:
        return None
    return is_layout(case.network, plan, case.execution.planned(case.array))


def fields_of(
    case: Case, iteration_s: float, *, layout: bool | None, bucket_bytes: float | None
) -> dict[str, Any]:
    """The same of a step of whose plan ``layout_of`` is known, and the size of its buckets."""
    if layout is None:
        return dict.fromkeys(FIELDS)
    array = case.execution.planned(case.array)
    step = (case.network, array, case.batch, case.execution)
    worth_s = iteration_s / (1 + NEAR)  # a lower one is not given
    bound = step_bound(*step, layout=layout, bucket_bytes=bucket_bytes, worth_s=worth_s)
    return _fields(bound, iteration_s)


def _fields(bound: StepBound | None, iteration_s: float) -> dict[str, Any]:
    if bound is None:
        return dict.fromkeys(FIELDS)
    if (gap := bound.gap(iteration_s)) > NEAR:
        return {**dict.fromkeys(FIELDS), "lower_bound_covers": NOT_NEAR}
    return dict(zip(FIELDS, (bound.seconds, bound.covers, gap), strict=True))


def sentence(fields: dict[str, Any]) -> str:
    """What the bound is of, or that it is weak; nothing where none is known."""
    if fields["lower_bound_covers"] is None:
        return ""
    return f"Lower bound: of {fields['lower_bound_covers']}."
