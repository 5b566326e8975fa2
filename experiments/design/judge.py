"""What a design is worth: its steps' time against the base design's, its area and power."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import exp, fsum, log
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from experiments.design.space import Design, Space
from experiments.studies.running.store import Store
from hardware import Units
from hardware.units import AREA, POWER
from simulator.lowering.units.estimate import UnitStep
from simulator.lowering.units.list_scheduling import list_schedule, urgency

Aim = Literal["throughput", "throughput-per-watt", "throughput-per-mm2"]
AIMS: tuple[Aim, ...] = get_args(Aim)


class BudgetSpent(Exception):  # noqa: N818 - it ends a search, it is not an error
    """No further design may be evaluated."""


class Limits(NamedTuple):
    """What a chip may have (mm2, W); it has ``cores`` equal cores and HBM of that bandwidth."""

    area_mm2: float
    power_w: float
    cores: int
    hbm_bytes_per_s: float

    def area(self, units: Units) -> float:
        """A chip's, mm2."""
        return self.cores * AREA.mm2(units)

    def power(self, units: Units) -> float:
        """A chip's with all units and the HBM busy, W."""
        return self.cores * POWER.watts(units, self.hbm_bytes_per_s / self.cores)

    def allow(self, units: Units) -> bool:
        """Whether both are kept; a design of just the limit is allowed."""
        within = 1 + 1e-9
        return (
            self.area(units) <= self.area_mm2 * within
            and self.power(units) <= self.power_w * within
        )


@dataclass(frozen=True, slots=True)
class Score:
    """A design's worth: gain over the base design by the aim; seconds of each step, mm2, W."""

    design: Design
    value: float
    seconds: tuple[float, ...]
    area_mm2: float
    power_w: float


Measured = tuple[Sequence[float], float, float]
"""Seconds of each step, and a chip's mm2 and W."""


def worth(aim: Aim, base: Measured, own: Measured) -> float:
    """Geometric mean of the gains in throughput over the base, by the aim."""
    gains = (log(before / after) for before, after in zip(base[0], own[0], strict=True))
    value = exp(fsum(gains) / len(own[0]))
    if aim == "throughput-per-watt":
        value *= base[2] / own[2]
    elif aim == "throughput-per-mm2":
        value *= base[1] / own[1]
    return value


class Delays(NamedTuple):
    """Seconds of the critical path by what bounds them, conflicts among those who are busiest."""

    matrix: float
    vector: float
    memory: float


@dataclass(eq=False)
class Judge:
    """Evaluates designs for some steps; what was evaluated is known from then on.

    ``evaluations`` counts designs that were asked for the first time, whether they had been
    kept or not: that is what a search has spent of its ``budget`` (None: it has no end).
    A ``store`` keeps them by ``of``, the identity of the steps; ``about`` names these for people.
    """

    space: Space
    steps: Sequence[UnitStep]
    limits: Limits
    base: Units
    aim: Aim = "throughput"
    store: Store | None = None
    of: str = ""
    about: Mapping[str, Any] = field(default_factory=dict)
    progress: Callable[[str], None] = lambda done: None
    scores: dict[Design, Score] = field(default_factory=dict)
    budget: int | None = None

    @cached_property
    def _base(self) -> Measured:
        seconds = [step.estimate_s(self.base) for step in self.steps]
        return seconds, self.limits.area(self.base), self.limits.power(self.base)

    @property
    def evaluations(self) -> int:
        """Designs evaluated so far."""
        return len(self.scores)

    def fresh(self, progress: Callable[[str], None] = lambda done: None) -> Judge:
        """Another judge of the same, that has evaluated nothing and keeps nothing."""
        return replace(self, scores={}, store=None, progress=progress)

    def allows(self, design: Design) -> bool:
        """Whether a design's tiles fit its buffer and it keeps the limits."""
        return self.space.fits(design) and self.limits.allow(self.space.units(design))

    def score(self, design: Design) -> Score:
        """A design's worth; raises BudgetSpent where that would be one evaluation too many."""
        if (known := self.scores.get(design)) is not None:
            return known
        if self.budget is not None and len(self.scores) >= self.budget:
            raise BudgetSpent
        units = self.space.units(design)

        def evaluate() -> dict[str, Any]:
            return {"seconds": [step.estimate_s(units) for step in self.steps]}

        if self.store is None:
            row = evaluate()
        else:
            names, key = {"design": str(design), "of": self.of}, ("design", self.of, asdict(design))
            row = self.store.get_or_make(key, evaluate, **self.about, **names)
        seconds = tuple(row["seconds"])
        area, power = self.limits.area(units), self.limits.power(units)
        value = worth(self.aim, self._base, (seconds, area, power))
        found = Score(design, value, seconds, area, power)
        self.scores[design] = found
        self.progress(str(design))
        return found

    def top(self, count: int) -> list[Score]:
        """The best of what was evaluated; of equal ones that with less area, then by its fields."""
        ranked = sorted(self.scores.values(), key=lambda s: (-s.value, s.area_mm2, s.design))
        return ranked[:count]

    def delays(self, design: Design) -> Delays:
        """What delays the steps of a design, relative to each step's time on the base."""
        units = self.space.units(design)
        parts = [delays(step, units) for step in self.steps]
        weights = [1 / base for base in self._base[0]]
        sums = (
            fsum(w * d for w, d in zip(weights, column, strict=True))
            for column in zip(*parts, strict=True)
        )
        return Delays(*sums)


def delays(step: UnitStep, units: Units) -> Delays:
    """A step's critical path: operators without slack, by what bounds them.

    An operator's earliest start is the longest way to it, its slack what is left of the
    longest way through it. Where units are in conflict, the schedule is longer than that
    path: the difference is put down to the unit that works longest.
    """
    priced = step.priced(units)
    tasks = step.tasks(priced)
    left, earliest = urgency(tasks), [0] * len(tasks)
    for i, task in enumerate(tasks):
        earliest[i] = max((earliest[b] + tasks[b].duration_ps for b in task.needs), default=0)
    path = max(left)
    critical = np.array([e + r == path for e, r in zip(earliest, left, strict=True)])
    memory = priced.hbm_bytes / step.memory_bytes_per_s > priced.compute_s
    matrix = ~memory & (priced.matrix_s >= priced.vector_s)
    starts = list_schedule(tasks, len(units.matrix) + 1).starts
    whole = max(s + t.duration_ps for s, t in zip(starts, tasks, strict=True))
    conflict = (whole - path) * 1e-12
    kinds = (matrix, ~memory & ~matrix, memory)
    busy = [float(priced.alone_s[which].sum()) for which in kinds]
    sums = [float(priced.alone_s[critical & which].sum()) for which in kinds]
    sums[busy.index(max(busy))] += conflict
    return Delays(*sums)
