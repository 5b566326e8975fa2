"""What a search has to beat: every design, and designs drawn at random."""

from __future__ import annotations

import random

from experiments.design.judge import Judge


def exhaustive(judge: Judge, budget: int | None = None) -> None:
    """Evaluate every allowed design of the space, in its order, or as many as the budget allows."""
    with judge.within(budget):
        for design in filter(judge.allows, judge.space):
            judge.score(design)


def at_random(judge: Judge, budget: int, seed: int = 0) -> None:
    """Evaluate so many allowed designs, each equally likely; fewer where there are not as many."""
    draw = random.Random(seed)  # noqa: S311 - nothing is kept secret with it
    size, seen = len(judge.space), set[int]()
    with judge.within(budget):
        while len(seen) < size:
            place = draw.randrange(size)
            design = judge.space.at(place)
            if place not in seen and judge.allows(design):
                judge.score(design)
            seen.add(place)
