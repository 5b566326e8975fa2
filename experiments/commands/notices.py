"""What a user should know beside a result: a search that was not exact."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planners import Plan


def gap_text(plan: Plan) -> str:
    """A sentence where a split was too wide for an exact search, else nothing."""
    if plan.gap is None:
        return ""
    if math.isinf(plan.gap):
        return "Not exact: the graph is too wide, and nothing is known about the least cost.\n"
    return (
        "Not exact: the graph is too wide for an exact search; "
        f"no split costs more than {plan.gap:.2%} above a lower bound on the least.\n"
    )


def gap_json(plan: Plan) -> dict[str, Any]:
    """``exact``, and ``gap``: what ``gap_text`` says as a fraction (None: exact, or unknown)."""
    known = plan.gap is not None and math.isfinite(plan.gap)
    return {"exact": plan.gap is None, "gap": plan.gap if known else None}
