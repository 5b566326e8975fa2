"""Where the difference between two steps comes from, to the core-picosecond."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from planners.order import Kind, Phase
from simulator import PICOSECONDS, Operation, Timeline
from simulator.analysis.stalls import core_steps

WAITING = "waiting"
Key = TypeVar("Key")


@dataclass(frozen=True, slots=True)
class Change:
    """Time under each of two planners, in picoseconds summed over all cores.

    What is spent by ``layer``, or in ``phase`` and ``kind``; empty where it does not apply.
    ``kind`` is WAITING for what is left of the step: cores that wait for others.
    """

    core_ps: tuple[int, int]
    phase: str = ""
    kind: str = ""
    layer: str = ""

    @property
    def change_ps(self) -> int:
        """The second planner's less the first's, in core-picoseconds."""
        return self.core_ps[1] - self.core_ps[0]


@dataclass(frozen=True, slots=True)
class Difference:
    """Two planners' steps on one array.

    Both ``phases`` and ``layers`` (the largest change first) end in waiting,
    and sum to the two iteration times, ``cores`` times over.
    """

    planners: tuple[str, str]
    cores: int
    iteration_ps: tuple[int, int]
    phases: tuple[Change, ...]
    layers: tuple[Change, ...]

    def seconds(self, core_ps: int) -> float:
        """What an average core spends of core-picoseconds, in seconds."""
        return core_ps / self.cores / PICOSECONDS


def difference(planners: tuple[str, str], steps: tuple[Timeline, Timeline]) -> Difference:
    """Compare two timelines of one array; raises ValueError when the cores are not as many."""
    cores = steps[0].cores
    if steps[1].cores != cores:
        raise ValueError(f"timelines of {cores} and {steps[1].cores} cores cannot be compared")
    spent = [list(core_ps(step)) for step in steps]
    phases = [_sums(((op.phase, op.kind), ps) for op, ps in step if ps) for step in spent]
    layers = [_sums((op.layer, ps) for op, ps in step) for step in spent]
    whole = (steps[0].iteration_ps, steps[1].iteration_ps)
    first, second = (ps * cores - sum(of.values()) for ps, of in zip(whole, phases, strict=True))
    waiting = Change((first, second), kind=WAITING)
    by_phase = [Change(both, *map(str, key)) for key, both in sorted(_both(*phases), key=in_order)]
    by_layer = [Change(both, layer=key) for key, both in _both(*layers)]
    by_layer.sort(key=lambda part: -abs(part.change_ps))
    return Difference(planners, cores, whole, (*by_phase, waiting), (*by_layer, waiting))


def in_order(row: tuple[tuple[str, str], object]) -> tuple[int, int]:
    """Phases, and kinds within them, as they run."""
    phase, kind = row[0]
    return list(Phase).index(Phase(phase)), list(Kind).index(Kind(kind))


def core_ps(timeline: Timeline) -> Iterator[tuple[Operation, int]]:
    """Core-picoseconds that operations cost, an operation as often as cores had to do with it.

    Its time on cores that compute it, and, of an exchange, the time in which
    cores that take part computed nothing and waited while it, or another, was
    under way. What is left of the step is waiting. Of a run of several batches
    it is what one takes in the long run.
    """
    whole, step_ps = timeline.long_run_ps or 1, timeline.iteration_ps
    for step in core_steps(timeline):
        for operation, ps in step.computed:
            yield operation, ps * step.cores * step_ps // whole
        for wait in step.waits:
            if wait.exchange is not None and wait.exposed:
                yield wait.exchange, wait.exposed * step.cores * step_ps // whole


def core_ps_by_phase(timeline: Timeline) -> dict[tuple[str, str], int]:
    """``core_ps`` by phase and kind."""
    return _sums(((op.phase, op.kind), ps) for op, ps in core_ps(timeline))


def _sums(spent: Iterable[tuple[Key, int]]) -> dict[Key, int]:
    sums: Counter[Key] = Counter()
    for key, ps in spent:
        sums[key] += ps
    return dict(sums)


def _both(
    first: Mapping[Key, int], second: Mapping[Key, int]
) -> Iterator[tuple[Key, tuple[int, int]]]:
    """Every key of either with its value in each."""
    for key in dict.fromkeys([*first, *second]):
        yield key, (first.get(key, 0), second.get(key, 0))
