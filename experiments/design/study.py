"""A design study: a search for each stage, then the best candidate end to end on the engine."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from experiments.design import local
from experiments.design.choice import Sized, balanced, choose, fastest
from experiments.design.judge import Aim, BudgetSpent, Judge, Limits
from experiments.design.runs import Ran, Runs, units_of
from experiments.design.space import Design, Space
from experiments.output import UsageError, hearing
from experiments.studies.case import Case, plan_of
from experiments.studies.running.store import Store, digest
from hardware import Units
from planners import Place, Plan
from simulator import MODEL_VERSION
from simulator.lowering.units.cores import Site, sites

SEARCHES = ("wham", "random", "exhaustive")
MOST_DESIGNS = 50_000
"""Of a space that is searched exhaustively without a budget."""
SHARE = 20
"""A search evaluates at most one in so many of the allowed designs, of large spaces MOST."""
LEAST, MOST = 20, 2000

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of a study: the steps, and how to search."""

    cases: tuple[Case, ...]
    space: Space
    limits: Limits
    aim: Aim = "throughput"
    search: str = "wham"
    budget: int | None = None
    seed: int = 0
    top: int = 3


@dataclass(frozen=True, slots=True)
class Found:
    """A study's result: the base design and the candidates, the best first."""

    base: Ran
    candidates: tuple[Ran, ...]
    evaluations: int
    search_s: float
    budget: int
    places: tuple[Place, ...]
    """Those that can have designs of their own."""
    plans: tuple[Plan, ...]
    """One for each network."""
    judge: Judge = field(repr=False)
    """That of all cores together."""

    @property
    def winner(self) -> Ran:
        """The best candidate."""
        return self.candidates[0]


def budget_of(asked: Asked) -> int | None:
    """Evaluations that a search may make; None for all. Raises UsageError where too many."""
    if asked.budget is not None:
        return asked.budget
    if asked.search != "exhaustive":
        if len(asked.space) > MOST_DESIGNS:
            return MOST
        units = map(asked.space.units, asked.space)
        return max(LEAST, sum(map(asked.limits.allow, units)) // SHARE)
    if len(asked.space) > MOST_DESIGNS:
        raise UsageError(
            f"--search exhaustive: {asked.space.name} has {len(asked.space):,} designs; at most "
            f"{MOST_DESIGNS:,} are looked at. Give --budget N, or a smaller --space"
        )
    return None


def study(asked: Asked, store: Store | None = None, progress: Progress | None = None) -> Found:
    """Search for every kind of core, place and for all of them; run the best on the engine.

    Local searches are for single cores, by the estimate: of each network's kinds of cores,
    of the cores of each place of a pipeline, and of all together the ``top`` designs. Which
    of these is the best end to end, for all or for each place its own, the engine says.
    Evaluations are kept in ``store``, and ``progress`` hears of those that a search makes (None:
    a bar). Raises UsageError where no design is allowed.
    """
    budget = budget_of(asked)
    base = units_of(asked.cases[0].array)
    plans = [plan_of(case) for case in asked.cases]
    found = [
        sites(case.network, plan, case.array, case.execution)
        for case, plan in zip(asked.cases, plans, strict=True)
    ]
    runs = Runs(asked.cases, plans, found, asked.space, asked.limits, asked.aim, base)
    every = [site for some in found for site in some]
    ranks = [
        [site for site in every if site.stage % len(runs.ranks) == rank]
        for rank in range(len(runs.ranks))
    ]
    started = time.perf_counter()
    groups = dict.fromkeys(map(tuple, [*([s] for s in every), *ranks, every]))
    judges = dict(zip(groups, _judges(asked, groups, base, store, budget, progress), strict=True))
    searched_s = time.perf_counter() - started
    top = {group: [s.design for s in judge.top(asked.top)] for group, judge in judges.items()}
    best = list(dict.fromkeys(design for some in top.values() for design in some))
    if not best:
        raise UsageError(
            f"no design of {asked.space.name} keeps {asked.limits.area_mm2:g} mm2 and "
            f"{asked.limits.power_w:g} W; raise --area or --power, or take another --space"
        )
    seen = dict.fromkeys(design for judge in judges.values() for design in judge.scores)
    sized = [_sized(asked, rank, judges[tuple(rank)], seen, runs.slowest_s) for rank in ranks]
    others = [fastest(sized)] if sized else []
    if sized and asked.aim != "throughput":
        others += balanced(sized, [place.count for place in runs.ranks], asked.top)
    ranked = choose(runs, best, [top[tuple(rank)] for rank in ranks], others)
    return Found(
        base=runs.base,
        candidates=tuple(ranked),
        evaluations=sum(judge.evaluations for judge in judges.values()),
        search_s=searched_s,
        budget=budget or len(asked.space),
        places=runs.ranks,
        plans=tuple(plans),
        judge=judges[tuple(every)],
    )


def _judges(
    asked: Asked,
    groups: Collection[tuple[Site, ...]],
    base: Units,
    store: Store | None,
    budget: int | None,
    progress: Progress | None,
) -> Iterator[Judge]:
    """Of each group of cores a judge that has searched."""
    first, space = asked.cases[0], asked.space
    names = (case.network.name for case in asked.cases)
    about = {"network": ", ".join(names), "array": first.array.name, "batch": first.batch}
    total = budget * len(groups) if budget and asked.search != "wham" else None
    with hearing(progress, total) as hears:
        for group in groups:
            steps = [site.step for site in group]
            of = {  # what their evaluations depend on, but for the design
                "model": MODEL_VERSION,
                "sites": [step.digest() for step in steps],
                "clock": space.clock_hz,
                "dataflow": space.dataflow,
            }
            judge = Judge(
                space, steps, asked.limits, base, asked.aim, store, digest(of), about, hears
            )
            run_search(judge, asked.search, budget, asked.seed)
            yield replace(judge, progress=lambda done: None)


def _sized(
    asked: Asked,
    rank: Sequence[Site],
    judge: Judge,
    designs: Iterable[Design],
    slowest_s: Mapping[Site, float],
) -> list[Sized]:
    """Designs in a place, each step against the slowest of its network in the base design."""
    return [
        Sized(
            max(s / slowest_s[site] for s, site in zip(score.seconds, rank, strict=True)),
            score.power_w if asked.aim == "throughput-per-watt" else score.area_mm2,
            score.design,
        )
        for score in map(judge.score, designs)
    ]


def run_search(judge: Judge, search: str, budget: int | None, seed: int = 0) -> None:
    """One of SEARCHES, at most so many evaluations (None: of all designs that are allowed)."""
    judge.budget = budget
    with suppress(BudgetSpent):
        if search == "exhaustive":
            for design in filter(judge.allows, judge.space):
                judge.score(design)
        elif search == "random":
            at_random(judge, seed)
        else:
            local.search(judge)
    judge.budget = None


def at_random(judge: Judge, seed: int) -> None:
    """Evaluate allowed designs, each equally likely, until the budget or all of them are spent."""
    draw = random.Random(seed)  # noqa: S311 - nothing is kept secret with it
    size, seen = len(judge.space), set[int]()
    while len(seen) < size:
        place = draw.randrange(size)
        design = judge.space.at(place)
        if place not in seen and judge.allows(design):
            judge.score(design)
        seen.add(place)
