"""How often a program that repeats itself gets through: the steady time from turn to turn."""

from __future__ import annotations

import numpy as np

from simulator.engine.timeline import Period, Timeline

LEAST_REPEATS = 3
"""So often a rhythm has to be seen to be called steady."""


def turn_ends(timeline: Timeline) -> list[int]:
    """When the last operation of each turn ended, picoseconds."""
    turns = np.asarray(timeline.columns.micro_batch, dtype=np.int64)
    ends = np.asarray(timeline.columns.end, dtype=np.int64)
    last = np.zeros(int(turns.max(initial=-1)) + 1, dtype=np.int64)
    np.maximum.at(last, turns, ends)
    found: list[int] = last.tolist()
    return found


def steady_period(timeline: Timeline, turns: int | None = None, unit: int = 1) -> Period | None:
    """The rhythm in which turns end once it is steady; None where none is seen.

    Found from the ends of turns: the shortest pattern of gaps between them
    that repeats (at least LEAST_REPEATS times, and for half of the turns, since replicas
    may end at once several times in a row) to the last turn, and the first turn from which
    it does. Turns that end at 5, 7, 10, 12, 15, 17, 20 do so
    two at a time every 5. Near the end of a run turns may hurry, since none
    follow: let it run longer than the ``turns`` that are asked about. A pattern is
    of a multiple of ``unit`` turns (what goes round replicas repeats with them).
    """
    gaps = np.diff(turn_ends(timeline)[:turns])
    for many in range(unit, len(gaps) // LEAST_REPEATS + 1, unit):
        differs = np.flatnonzero(gaps[many:] != gaps[:-many])
        warm_up = int(differs[-1]) + 1 if len(differs) else 0
        if len(gaps) - warm_up >= max(LEAST_REPEATS * many, len(gaps) / 2):
            return Period(int(gaps[-many:].sum()), many, warm_up)
    return None
