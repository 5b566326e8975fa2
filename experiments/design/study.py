"""A design study: a search for each stage, then the best candidate end to end on the engine."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import exp, fsum, log
from typing import Any

from experiments.design import local
from experiments.design.baselines import at_random, exhaustive
from experiments.design.judge import Aim, Judge, Kept, Limits, Score
from experiments.design.space import Design, Space
from experiments.output import UsageError
from experiments.studies.case import Case, plan_of
from hardware import Array, Device, Units
from planners import Plan
from simulator import MODEL_VERSION, simulate
from simulator.lowering.unit_sites import Site, sites
from simulator.lowering.unit_tasks import run_tasks

SEARCHES = ("wham", "random", "exhaustive")
MOST_DESIGNS = 50_000
"""Of a space that is searched exhaustively without a budget."""
SHARE = 20
"""A search evaluates at most one in so many of the allowed designs, of large spaces MOST."""
LEAST, MOST = 20, 2000

Progress = Callable[[str], None]
KeptFor = Callable[[str], Kept | None]


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
    inference: bool = False


@dataclass(frozen=True, slots=True)
class Ran:
    """A design on the engine: seconds of each network's step, and what it is worth."""

    design: Design | None
    seconds: tuple[float, ...]
    in_order_s: tuple[float, ...]
    value: float
    area_mm2: float
    power_w: float
    estimated: float


@dataclass(frozen=True, slots=True)
class Found:
    """A study's result: the base design and the candidates, the best first."""

    base: Ran
    candidates: tuple[Ran, ...]
    evaluations: int
    search_s: float
    evaluated: tuple[Score, ...]
    budget: int
    judges: tuple[Judge, ...] = field(repr=False)

    @property
    def winner(self) -> Ran:
        """The best candidate."""
        return self.candidates[0]


def device_of(array: Array) -> Device:
    """The device whose units are designed; raises UsageError unless all are alike, with units."""
    if len(array.group.kinds) > 1:
        raise UsageError(f"{array.name}: its devices are unlike; a design is for one kind of them")
    device = array.group.kinds[0][0]
    if device.units is None:
        raise UsageError(
            f"{array.name}: {device.name} has no [units] to design; take --array wham-1, or a "
            "device whose spec describes them (as tpu-v2-units)"
        )
    return device


def with_units(array: Array, units: Units) -> Array:
    """The array with other units in every core."""
    peak = array.group.kinds[0][0].cores_per_chip * units.flops_per_s
    kinds = tuple(
        (replace(device, units=units, chip_peak_flops_per_s=peak), count)
        for device, count in array.group.kinds
    )
    return replace(array, group=replace(array.group, kinds=kinds))


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


def study(
    asked: Asked, *, kept_for: KeptFor = lambda _: None, progress: Progress = lambda done: None
) -> Found:
    """Search for every kind of core, then for all of them, and run the best on the engine.

    Local searches are for single cores, by the estimate: of each network and stage the
    ``top`` designs, and those of a search for all of them together. Which of these is the
    best end to end, the engine says. Raises UsageError where no design is allowed.
    """
    budget = budget_of(asked)
    plans = [plan_of(case) for case in asked.cases]
    found = [_sites(case, plan, asked) for case, plan in zip(asked.cases, plans, strict=True)]
    base = device_of(asked.cases[0].array).units
    if base is None:
        raise UsageError("no units")
    groups = [[site] for some in found for site in some]
    if len(groups) > 1:
        groups.append([site for some in found for site in some])
    started, judges = time.perf_counter(), list[Judge]()
    for group in groups:
        kept = kept_for(_identity(asked, group))
        steps = [site.step for site in group]
        judge = Judge(
            asked.space, steps, asked.limits, base, asked.aim, kept=kept, progress=progress
        )
        run_search(judge, asked.search, budget, asked.seed)
        judges.append(judge)
    searched_s = time.perf_counter() - started
    best = list(dict.fromkeys(s.design for judge in judges for s in judge.top(asked.top)))
    if not best:
        raise UsageError(
            f"no design of {asked.space.name} keeps {asked.limits.area_mm2:g} mm2 and "
            f"{asked.limits.power_w:g} W; raise --area or --power, or take another --space"
        )
    runs = _Runs(asked, plans, found, base)
    estimates = {d: max(j.scores[d].value for j in judges if d in j.scores) for d in best}
    first = runs.ran(None, base, 1.0)
    ranked = [runs.ran(d, asked.space.units(d), estimates[d], first) for d in best]
    ranked.sort(key=lambda ran: (-ran.value, ran.area_mm2, ran.design))
    return Found(
        base=first,
        candidates=tuple(ranked),
        evaluations=sum(judge.evaluations for judge in judges),
        search_s=searched_s,
        evaluated=tuple(judges[-1].scores.values()),
        budget=budget or len(asked.space),
        judges=tuple(judges),
    )


def run_search(judge: Judge, search: str, budget: int | None, seed: int = 0) -> None:
    """One of SEARCHES, at most so many evaluations."""
    if search == "exhaustive":
        exhaustive(judge, budget)
    elif search == "random":
        at_random(judge, budget or MOST, seed)
    else:
        local.search(judge, budget or MOST)


def _sites(case: Case, plan: Plan, asked: Asked) -> list[Site]:
    return sites(case.network, plan, case.array, case.execution, inference=asked.inference)


def _identity(asked: Asked, group: Sequence[Site]) -> str:
    """What evaluations of these steps depend on, but for the design."""
    of = {
        "model": MODEL_VERSION,
        "sites": [site.step.digest() for site in group],
        "clock": asked.space.clock_hz,
        "dataflow": asked.space.dataflow,
        "inference": asked.inference,
    }
    text = json.dumps(of, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class _Runs:
    """Designs end to end."""

    def __init__(
        self,
        asked: Asked,
        plans: Sequence[Plan],
        found: Sequence[Sequence[Site]],
        base: Units,
    ) -> None:
        self._asked, self._plans, self._sites = asked, plans, found
        self._base = base

    def ran(
        self, design: Design | None, units: Units, estimated: float, base: Ran | None = None
    ) -> Ran:
        """A design's steps; its value is relative to the ``base``'s."""
        pairs = [self._seconds(i, units) for i in range(len(self._plans))]
        seconds, in_order = tuple(p[0] for p in pairs), tuple(p[1] for p in pairs)
        limits = self._asked.limits
        area, power = limits.area(units), limits.power(units)
        value = 1.0
        if base is not None:
            gains = (log(b / s) for b, s in zip(base.seconds, seconds, strict=True))
            value = exp(fsum(gains) / len(seconds))
            if self._asked.aim == "throughput-per-watt":
                value *= base.power_w / power
            elif self._asked.aim == "throughput-per-mm2":
                value *= base.area_mm2 / area
        return Ran(design, seconds, in_order, value, area, power, estimated)

    def _seconds(self, i: int, units: Units) -> tuple[float, float]:
        """A network's step with units at once where there is one core, and with each in order."""
        case, plan = self._asked.cases[i], self._plans[i]
        array = with_units(case.array, units)
        if self._asked.inference and case.array.group.cores > 1:
            raise UsageError("--mode inference: designs are for one core; take --array wham-1")
        if case.array.group.cores > 1:
            seconds = simulate(case.network, plan, array, case.execution).iteration_s
            return seconds, seconds
        (site,) = self._sites[i]
        priced = site.step.priced(units)
        timeline = run_tasks(
            array.group.kinds[0][0],
            len(units.matrix) + 1,
            site.step.tasks(priced, alone=False),
            site.step.memory_bytes_per_s,
        )
        return timeline.makespan_s, site.step.in_order_s(units)


def fields_of(ran: Ran, cases: Sequence[Case]) -> dict[str, Any]:
    """A design as JSON has it."""
    return {
        "design": None if ran.design is None else asdict(ran.design),
        "value": ran.value,
        "estimated_value": ran.estimated,
        "area_mm2": ran.area_mm2,
        "power_w": ran.power_w,
        "networks": {
            case.network.name: {
                "iteration_s": seconds,
                "in_order_s": in_order,
                "samples_per_s": case.batch / seconds,
            }
            for case, seconds, in_order in zip(cases, ran.seconds, ran.in_order_s, strict=True)
        },
    }
