"""What the page is about, and what it shows, in one sentence each."""

from __future__ import annotations

from collections.abc import Sequence

from experiments.studies.speedups import BASELINE, Comparison


def title(results: Sequence[Comparison]) -> str:
    """Networks, planners and arrays, batch and execution model."""
    first = results[0]
    others = [planner for planner in first.planners if planner != BASELINE]
    compared = f"{_some(others, 'planners')} against data parallelism" if others else BASELINE
    networks = _some(first.networks, "networks")
    arrays = _all([result.array for result in results])
    models = _all(list(dict.fromkeys(result.execution for result in results)))
    return f"{compared} for {networks} on {arrays}, batch {first.batch}, {models}"


def message(results: Sequence[Comparison]) -> str:
    """The fastest planner of each array, how much faster it is, and than which other."""
    found = "; ".join(map(_finding, results))
    return f"{found[0].upper()}{found[1:]}."


def _finding(result: Comparison) -> str:
    """One array's; planners are compared by the geometric mean of their speedups."""
    ranked = sorted(result.geomean, key=lambda planner: -result.geomean[planner])
    if ranked == [BASELINE]:
        times = [row.iteration_s for row in result.rows]
        ends = sorted({f"{min(times):.3g}", f"{max(times):.3g}"}, key=float)
        return f"on {result.array} a step under data parallelism takes {' to '.join(ends)} s"
    best = ranked[0]
    if best == BASELINE:
        nearest = f"{ranked[1]}, the nearest, has {result.geomean[ranked[1]]:.3g} times its speed"
        return f"on {result.array} no planner beats data parallelism: {nearest}"
    speedups = [row.speedup for row in result.of(best)]
    found = f"on {result.array}, {best} is {result.geomean[best]:.3g} times as fast as data"
    found += " parallelism"
    if len(speedups) > 1:
        spread = f"{min(speedups):.3g} to {max(speedups):.3g}"
        found += f" in the geometric mean of {len(speedups)} networks ({spread})"
    rivals = [planner for planner in ranked[1:] if planner != BASELINE]
    if rivals:
        ratio = result.geomean[best] / result.geomean[rivals[0]]
        found += f", and {ratio:.3g} times as fast as {rivals[0]}"
    return found


def _some(names: Sequence[str], what: str) -> str:
    """Up to three by name, more by their number."""
    return _all(names) if len(names) <= 3 else f"{len(names)} {what}"


def _all(names: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
