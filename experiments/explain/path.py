"""Where the time of one step goes: along its critical path, and on an average core."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from simulator import PICOSECONDS, Timeline
from simulator.analysis.critical_path import BOUNDS, SLOWED, Segment, critical_path
from simulator.analysis.stalls import CoreStep, core_steps

Key = TypeVar("Key")
STEPS_END = "the end of the step"
"""What a core waits for when it has nothing left to do."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What an average core spends on one layer, or boundary; picoseconds summed over all cores."""

    layer: str
    computing_ps: int = 0
    exposed_ps: int = 0
    waiting_ps: int = 0


def bounds_of(segment: Segment) -> dict[str, int]:
    """Picoseconds of a segment by what they go to; no worker of a step has a pace of its own.

    So what slows an operation down is its HBM, which other units of the core use.
    """
    parts = segment.bounds_ps()
    slowed = parts.pop(SLOWED, 0)
    return parts | ({"HBM": parts.get("HBM", 0) + slowed} if slowed else {})


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """One step's critical path, and every core's time by layer; the largest part first.

    ``layers`` sum to the step, ``cores`` times over.
    """

    iteration_ps: int
    path: tuple[Segment, ...]
    cores: int
    idle_cores: int
    layers: tuple[Spent, ...]

    def share(self, path_ps: int) -> float:
        """Picoseconds as a fraction of the step."""
        return path_ps / self.iteration_ps if self.iteration_ps else 0.0

    def seconds(self, core_ps: int) -> float:
        """What an average core spends of core-picoseconds, in seconds."""
        return core_ps / self.cores / PICOSECONDS

    def by_bound(self) -> dict[str, int]:
        """Picoseconds of the path by what they go to (``critical_path.BOUNDS``)."""
        spent = Counter(dict.fromkeys(BOUNDS, 0))
        for segment in self.path:
            spent.update(bounds_of(segment))
        return dict(spent)

    def by_kind(self) -> dict[tuple[str, str], int]:
        """Picoseconds of the path by phase and kind, the largest first."""
        return _sums([(str(s.operation.phase), str(s.operation.kind)) for s in self.path], self)

    def by_layer(self) -> dict[str, int]:
        """Picoseconds of the path by layer, or boundary between two, the largest first."""
        return _sums([segment.operation.layer for segment in self.path], self)


def _sums(keys: Sequence[Key], paths: Paths) -> dict[Key, int]:
    spent: Counter[Key] = Counter()
    for key, segment in zip(keys, paths.path, strict=True):
        spent[key] += segment.duration_ps
    return dict(spent.most_common())


def paths_of(timeline: Timeline) -> Paths:
    """Walk a step's critical path, and every core's waits."""
    steps = list(core_steps(timeline))
    return Paths(
        timeline.makespan_ps,
        tuple(critical_path(timeline)),
        sum(step.cores for step in steps),
        sum(step.cores for step in steps if not any(ps for _, ps in step.computed)),
        tuple(sorted(_by_layer(steps), key=lambda s: -s.computing_ps - s.exposed_ps)),
    )


def _by_layer(steps: Sequence[CoreStep]) -> list[Spent]:
    computing: Counter[str] = Counter()
    exposed: Counter[str] = Counter()
    waiting: Counter[str] = Counter()
    for step in steps:
        for operation, ps in step.computed:
            computing[operation.layer] += ps * step.cores
        for wait in step.waits:
            layer = wait.exchange.layer if wait.exchange else STEPS_END
            exposed[layer] += wait.exposed * step.cores
            waiting[layer] += wait.waiting * step.cores
    return [
        Spent(layer, computing[layer], exposed[layer], waiting[layer])
        for layer in dict.fromkeys([*computing, *exposed, *waiting])
    ]
