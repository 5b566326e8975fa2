"""WHAM's local search: what delays the critical path gets more units; a pruned tree of shapes.

The search begins with one large matrix unit and one large vector unit. Of whichever kind
delays the critical path the next larger number is tried, until area or power binds or nothing
is gained. Then the tree: a design's children have matrix or vector units of another
shape with as many multipliers, or more of what delays it in exchange for something
else. The best child is grown and expanded next; what is much worse than the best is
pruned, and the search ends when some expansions in a row have found nothing better. What the
best can do without is taken from it in the end, where the budget allows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush

from experiments.design.judge import Judge, Score
from experiments.design.space import Design, design_of

SLACK = 0.20
"""A design this much worse than the best so far is pruned."""
PATIENCE = 16
"""Expansions in a row without a better design, after which the search ends."""
GAIN = 1e-4
"""Less than that is no gain."""
MATTERS = 0.03
"""A kind that accounts for less of the critical path is not given more."""
SHRUNK = ("buffer_bytes", "matrix_width", "matrix_depth", "vector_width")
SHAPES = (
    ("matrix_width", "matrix_count"),
    ("matrix_depth", "matrix_count"),
    ("matrix_width", "matrix_depth"),
    ("vector_width", "vector_count"),
)
"""Pairs of fields of which one may grow as the other shrinks: as many multipliers, or lanes."""
GROWN = {"matrix": "matrix_count", "vector": "vector_count", "memory": "buffer_bytes"}


def search(judge: Judge) -> None:
    """Evaluate designs; the judge has them. Nothing where no design is allowed."""
    if (start := first(judge)) is not None:
        _tree(judge, start)
        _trim(judge)


def first(judge: Judge) -> Design | None:
    """One unit of each kind, as large as the limits allow; the largest part shrinks first."""
    values = judge.space.values.items()
    design = design_of([some[0 if name.endswith("_count") else -1] for name, some in values])
    while not judge.allows(design):
        smaller = [d for field in SHRUNK if (d := judge.space.moved(design, field, -1))]
        if not smaller:
            return None
        design = min(smaller, key=lambda d: judge.limits.area(judge.space.units(d)))
    return design


def _tree(judge: Judge, start: Design) -> None:
    best, stale = judge.score(start), 0
    waiting = [(-best.value, start)]
    expanded = set[Design]()
    while waiting and stale < PATIENCE:
        _, design = heappop(waiting)
        node = grown(judge, design)
        stale = 0 if node.value > best.value * (1 + GAIN) else stale + 1
        best = max(best, node, key=lambda score: score.value)
        if node.design in expanded:
            stale -= 1
            continue
        expanded.add(node.design)
        for child in children(judge, node.design):
            if child not in judge.scores:
                found = judge.score(child)
                if found.value >= best.value * (1 - SLACK):
                    heappush(waiting, (-found.value, child))


def _trim(judge: Judge) -> None:
    """Less of anything, while the best is no worse for it."""
    (best,) = judge.top(1)
    fields = [*SHRUNK, *GROWN.values()]
    while fields:
        smaller = judge.space.moved(best.design, fields[0], -1)
        score = judge.score(smaller) if smaller and judge.allows(smaller) else None
        if score is None or score.value < best.value:
            fields.pop(0)
        else:
            best = score


def grown(judge: Judge, design: Design) -> Score:
    """More of what delays the critical path most, until nothing is gained or allowed."""
    score = judge.score(design)
    while True:
        fields = delaying(judge, score.design)
        larger = (judge.space.moved(score.design, field, 1) for field in fields)
        scores = (judge.score(one) for one in larger if one is not None and judge.allows(one))
        better = next((one for one in scores if one.value > score.value * (1 + GAIN)), None)
        if better is None:
            return score
        score = better


def delaying(judge: Judge, design: Design) -> list[str]:
    """The fields of which more would help, by how much of the critical path they account for."""
    delays = judge.delays(design)._asdict()
    whole = sum(delays.values())
    kinds = sorted(delays, key=lambda kind: -delays[kind])
    return [GROWN[kind] for kind in kinds if delays[kind] > MATTERS * whole]


def children(judge: Judge, design: Design) -> Iterator[Design]:
    """Other shapes with as many multipliers or lanes; more of what delays, less of the rest.

    Where worth is by power or area, less of anything as well.
    """
    moved = judge.space.moved
    for side, count in SHAPES:
        others = [field for field in GROWN.values() if field != count]
        for step in (-1, 1):
            other = moved(design, side, step)
            other = other and moved(other, count, -step)
            if other is not None and (found := within(judge, other, others)) is not None:
                yield found
    fields = delaying(judge, design)
    rest = [field for field in reversed(GROWN.values()) if field not in fields]
    ranked = [*rest, *reversed(fields)]
    for field in fields:
        donors = [donor for donor in ranked if donor != field]
        for some in (*((donor,) for donor in donors), tuple(donors)):
            larger = moved(design, field, 1)
            if larger is not None and (found := within(judge, larger, some)) is not None:
                yield found
    if judge.aim != "throughput":
        for field in judge.space.values:
            smaller = moved(design, field, -1)
            if smaller is not None and judge.allows(smaller):
                yield smaller


def within(judge: Judge, design: Design, donors: Sequence[str]) -> Design | None:
    """The design with as many steps less of the donors, in turns, as the limits ask for."""
    found: Design | None = design
    turns = 0
    while found is not None and not judge.allows(found):
        found = judge.space.moved(found, donors[turns % len(donors)], -1)
        turns += 1
    return found
