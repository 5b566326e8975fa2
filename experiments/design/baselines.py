"""What a search has to beat: every design, and designs drawn at random."""

from __future__ import annotations

import random

from experiments.design.judge import BudgetSpent, Judge


def exhaustive(judge: Judge, budget: int | None = None) -> None:
    """Evaluate every allowed design of the space, in its order, or as many as the budget allows."""
    judge.budget = budget
    try:
        for design in judge.space:
            if judge.allows(design):
                judge.score(design)
    except BudgetSpent:
        pass
    finally:
        judge.budget = None


def at_random(judge: Judge, budget: int, seed: int = 0) -> None:
    """Evaluate so many allowed designs, each equally likely; fewer where there are not as many."""
    draw = random.Random(seed)  # noqa: S311 - nothing is kept secret with it
    judge.budget = budget
    size, seen = len(judge.space), set[int]()
    try:
        while len(seen) < size:
            place = draw.randrange(size)
            if place in seen:
                continue
            seen.add(place)
            design = judge.space.at(place)
            if judge.allows(design):
                judge.score(design)
    except BudgetSpent:
        pass
    finally:
        judge.budget = None
