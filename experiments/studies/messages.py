"""What to know about plans and comparisons, in sentences."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from experiments.notices import tell
from experiments.studies.speedups import Comparison, Row
from planners import Plan


def inexact(plan: Plan) -> str:
    """A sentence where a split was too wide for an exact search, else nothing."""
    if plan.gap is None:
        return ""
    if math.isinf(plan.gap):
        return "Not exact: the graph is too wide, and nothing is known about the least cost.\n"
    return (
        "Not exact: the graph is too wide for an exact search; "
        f"no split costs more than {plan.gap:.2%} above a lower bound on the least.\n"
    )


def warn_inexact(network: str, plan: Plan) -> None:
    """The same sentence as a warning."""
    if said := inexact(plan):
        tell(f"{network}, {plan.planner}: {said[0].lower()}{said[1:].rstrip()}")


def messages(result: Comparison) -> list[str]:
    """What to know about a comparison."""
    found = [
        f"The paper's averages for this array are {certainty}, not verified."
        for certainty in sorted({value.certainty for value in result.published.values()})
        if certainty != "printed"
    ]
    for planner in result.planners:
        rows = result.of(planner)
        found += slower(result, planner)
        if faster := [
            r.network for r in rows if r.fast_alone_speedup and r.fast_alone_speedup > r.speedup
        ]:
            found.append(
                f"{planner} on the fastest devices alone beats {planner} on the whole array for "
                f"{', '.join(faster)}."
            )
        found += _inexact(planner, rows)
        found += _above(planner, rows)
        found += _occupied(planner, rows, result.cores)
    if "energy" in result.metrics:
        found += _without_energy(result)
    return found


def slower(result: Comparison, *planners: str) -> Iterator[str]:
    """For which networks planners (all, unless named) lose to data parallelism, a sentence each."""
    for planner in planners or result.planners:
        if losing := [row.network for row in result.of(planner) if row.speedup < 1]:
            yield f"{planner} is slower than data parallelism for {', '.join(losing)}."


def _above(planner: str, rows: Sequence[Row]) -> Iterator[str]:
    """How far above lower bounds a planner's steps are, where all of them have one that is near."""
    gaps = {row.network: row.step_gap for row in rows if row.step_gap is not None}
    if len(gaps) == len(rows) and rows:
        least, most = (pick(gaps, key=gaps.__getitem__) for pick in (min, max))
        yield (
            f"{planner}: {gaps[least]:.1%} ({least}) to {gaps[most]:.1%} ({most}) above what no "
            "plan undercuts that the bound covers (docs/search.md)."
        )


def _inexact(planner: str, rows: Sequence[Row]) -> Iterator[str]:
    """For which networks a planner's graph was too wide for an exact search."""
    for row in rows:
        if row.exact is False:
            above = "an unknown amount" if row.gap is None else f"at most {row.gap:.2%}"
            yield (
                f"{planner}'s plan for {row.network} is not exact (its graph is too wide): a split "
                f"costs {above} more than a lower bound on the least."
            )


def _occupied(planner: str, rows: Sequence[Row], cores: int) -> Iterator[str]:
    """For which networks a planner leaves cores idle, or overfills them."""
    for idle in sorted({row.idle_cores for row in rows if row.idle_cores}):
        networks = ", ".join(row.network for row in rows if row.idle_cores == idle)
        yield f"{planner} leaves {idle:,} of {cores:,} cores idle for {networks}."
    if over := [row.network for row in rows if row.cores_over_memory]:
        networks = ", ".join(over)
        yield f"{planner} does not fit in memory for {networks}: this array cannot run it."


def _without_energy(result: Comparison) -> Iterator[str]:
    """For which networks, under which planners, energy efficiency cannot be said."""
    unknown: dict[tuple[str, ...], list[str]] = {}
    for network in result.networks:
        rows = [row for row in result.rows if row.network == network]
        planners = tuple(row.planner for row in rows if row.energy_efficiency is None)
        unknown.setdefault(planners, []).append(network)
    for planners, networks in unknown.items():
        if planners:
            yield (
                f"No energy efficiency of {', '.join(planners)} for {', '.join(networks)}: "
                "a step, or the one under data parallelism, takes no joules."
            )
