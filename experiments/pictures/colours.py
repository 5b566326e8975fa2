"""Colours: one for each planner, the same in every picture and on every page."""

from __future__ import annotations

from collections.abc import Sequence

COLOURS = ("#4477aa", "#228833", "#ee6677", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb")
"""Paul Tol's bright scheme, told apart by colour-blind readers too."""
PLANNERS = ("data_parallel", "owt", "hypar", "accpar", "model_parallel")
"""Planners that have the colour at their place for themselves."""


def places(planners: Sequence[str]) -> dict[str, int]:
    """Each planner's number among the colours.

    Others than PLANNERS have those behind theirs, in their order, and where
    these do not suffice those of PLANNERS that are absent; then all once more.
    """
    own = {name: PLANNERS.index(name) for name in planners if name in PLANNERS}
    free = [*range(len(PLANNERS), len(COLOURS)), *range(len(PLANNERS))]
    free = [place for place in free if place not in own.values()] or list(range(len(COLOURS)))
    others = [name for name in dict.fromkeys(planners) if name not in own]
    own |= {name: free[i % len(free)] for i, name in enumerate(others)}
    return {name: own[name] for name in planners}


def colours(planners: Sequence[str]) -> dict[str, str]:
    """Each planner's colour."""
    return {name: COLOURS[place] for name, place in places(planners).items()}
