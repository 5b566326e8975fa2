"""What a user should know beside a result: what a file holds unread, a search not exact."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planners import Plan
    from workloads import Network

MOST_WARNINGS = 10
"""Lines of warnings about one network on the terminal; JSON has them all."""


def network_of(name: str) -> Network:
    """The network of that name or path; what was not understood of it goes to stderr."""
    from experiments.output import warn
    from workloads import load_network

    network = load_network(name)
    for note in network.notes[:MOST_WARNINGS]:
        warn(f"{network.name}: {note}")
    if more := len(network.notes[MOST_WARNINGS:]):
        warn(f"{network.name}: and {more} more")
    return network


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


def warn_gap(network: str, plan: Plan) -> None:
    """The same sentence on stderr."""
    from experiments.output import warn

    if said := gap_text(plan):
        warn(f"{network}, {plan.planner}: {said[0].lower()}{said[1:].rstrip()}")


def gap_json(plan: Plan) -> dict[str, Any]:
    """``exact``, and ``gap``: what ``gap_text`` says as a fraction (None: exact, or unknown)."""
    known = plan.gap is not None and math.isfinite(plan.gap)
    return {"exact": plan.gap is None, "gap": plan.gap if known else None}
