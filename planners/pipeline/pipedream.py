"""The pipeline that PipeDream's dynamic program finds for a profile on a hierarchy of machines.

Level by level from the innermost: what a level takes for a stretch of layers on all of its
machines is what one machine of the next level takes. Exact: the least possible
value of its formula over all cuts between states and all numbers of replicas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from planners.errors import PlanError
from planners.pipeline.cost_models import CostModel, Level
from planners.pipeline.states import Floats, States


@dataclass(frozen=True, slots=True)
class ProfiledStage:
    """Names of layers, and how many devices each have a copy of all of them."""

    nodes: tuple[str, ...]
    replicas: int


@dataclass(frozen=True, slots=True)
class ProfiledPipeline:
    """Stages in order, and seconds per minibatch: one device, the pipeline, all data parallel.

    ``cost_model`` names the formulas behind them, ``notes`` says what they leave out.
    """

    cost_model: str
    single_s: float
    pipeline_s: float
    data_parallel_s: float
    stages: tuple[ProfiledStage, ...]
    notes: tuple[str, ...] = ()

    @property
    def in_flight(self) -> int:
        """Minibatches to have in the pipeline: ceil(devices / replicas of the first stage)."""
        return math.ceil(sum(stage.replicas for stage in self.stages) / self.stages[0].replicas)


def plan_stages(
    states: States,
    levels: Sequence[Level],
    model: CostModel,
    rules: Rules | None = None,
    done: Callable[[str], None] = lambda label: None,
) -> ProfiledPipeline:
    """The best pipeline on all devices; ``done`` is called len(levels) * len(states) times.

    Raises PlanError where there is none: a straight pipeline has a stage for each
    device, of at least one layer; or no plan fits in ``rules.memory_bytes``.
    """
    rules = rules or Rules()
    unit_s, inner, solved = _one_device(states), 1, list[Solved]()
    for level in levels:
        whole = len(solved) + 1 == len(levels)
        solved.append(solve(states, level, inner, model, rules, unit_s, whole=whole, done=done))
        unit_s, inner = solved[-1].best[-1], level.count
    pipeline_s = float(unit_s[0, -1])
    if not math.isfinite(pipeline_s):
        raise PlanError(_no_plan(states, levels, rules))
    stages = tuple(
        ProfiledStage(
            states.names(piece.start - 1 if piece.start else None, piece.end), piece.replicas
        )
        for piece in _unfolded(solved, Piece(0, len(states) - 1, 1))
    )
    return ProfiledPipeline(
        model.name,
        states.profile.single_s,
        pipeline_s,
        _data_parallel_s(states, levels, model),
        stages,
        tuple(model.assumptions()),
    )


def _one_device(states: States) -> Floats:
    """Seconds [i, j] of what state j has more than state i - 1; inf where that is nothing."""
    seconds = np.full((len(states) + 1, len(states)), np.inf)
    seconds[0] = states.time_s
    for end, below in enumerate(states.below):
        seconds[below + 1, end] = states.time_s[end] - states.time_s[below]
    return seconds


def _unfolded(solved: Sequence[Solved], piece: Piece) -> list[Piece]:
    """Stages on devices: a stage on a unit of a level is a pipeline inside that unit."""
    if not solved:
        return [piece]
    *inner, outer = solved
    found = []
    for start, end, units in reversed(
        list(outer.pieces(piece.start, piece.end, outer.level.count))
    ):
        found += _unfolded(inner, Piece(start, end, units * piece.replicas))
    return found


def _data_parallel_s(states: States, levels: Sequence[Level], model: CostModel) -> float:
    """One stage with a copy on every device."""
    seconds, inner = states.time_s[-1:], 1
    for level in levels:
        bandwidth = level.bytes_per_s * (inner if model.inner_links else 1)
        weights, replicas = states.parameter_bytes[-1:], np.array([level.count])
        seconds = model.stage_s(seconds, weights, replicas, bandwidth)
        inner = level.count
    return float(seconds[0])


def _no_plan(states: States, levels: Sequence[Level], rules: Rules) -> str:
    devices = math.prod(level.count for level in levels)
    if rules.straight and not rules.fewer and (most := _most_stages(states)) < devices:
        return (
            f"{states.profile.name}: a straight pipeline on {devices} devices has as many stages, "
            f"but the network can be cut into {most} at most; take fewer devices"
        )
    if rules.memory_bytes is not None:
        return (
            f"{states.profile.name}: no plan on {devices} devices keeps its minibatches in flight "
            f"within {rules.memory_bytes:g} bytes a device; allow more memory, or another number"
        )
    return f"{states.profile.name}: no plan on {devices} devices; take fewer"


def _most_stages(states: States) -> int:
    """The most states of which each is a part of the next one."""
    most = list[int]()
    for below in states.below:
        most.append(1 + max((most[k] for k in below), default=0))
    return most[-1]


MOST_NUMBERS = 1 << 28
"""Of one level's table: 2 GiB."""
_BLOCK = 1 << 18
"""Numbers that one step of NumPy works on."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a plan may be.

    ``straight``: no replicas. ``fewer``: machines may stay idle. ``memory_bytes``:
    a stage on m replicas, with r machines in the stages after it or idle, keeps the
    activations and parameters of ceil(r / m) more minibatches, which must fit.
    """

    straight: bool = False
    fewer: bool = False
    memory_bytes: float | None = None


class Piece(NamedTuple):
    """What state ``end`` has more than state ``start`` - 1, on so many machines."""

    start: int
    end: int
    replicas: int


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """One level: ``unit_s[i, j]`` on one machine of it, and ``best[m, i, j]``; inf: impossible."""

    states: States
    level: Level
    inner: int
    model: CostModel
    rules: Rules
    unit_s: Floats
    best: Floats

    def alone(self, starts: npt.NDArray[np.intp], end: int) -> Floats:
        """One stage each, on 1...count machines: shape (count, len(starts))."""
        level, replicas = self.level, self._replicas(self.level.count)
        work, weights, kept = self._sums(starts, end)
        bandwidth = level.bytes_per_s * (self.inner if self.model.inner_links else 1)
        seconds = self.model.stage_s(work, weights, replicas, bandwidth)
        return self._fitting(seconds, kept, np.ceil((level.count - replicas) / replicas))

    def last(self, end: int, used: int) -> Floats:
        """The last stage after each state below, on 1...: shape (most replicas, states below).

        ``used`` machines do all up to its end.
        """
        level, below = self.level, self.states.below[end]
        replicas = self._replicas(used - 1)
        work, weights, kept = self._sums(below + 1, end)
        seconds = self.model.stage_s(work, weights, replicas, level.bytes_per_s)
        crossing = self.model.crossing_bytes(self.states)
        links = self.model.links_s(crossing[below], crossing[end], replicas, level.bytes_per_s)
        if links is not None:
            seconds = np.maximum(seconds, links)
        return self._fitting(seconds, kept, np.ceil((level.count - used) / replicas))

    def _replicas(self, most: int) -> Floats:
        return np.arange(1.0, (1 if self.rules.straight else most) + 1)[:, None]

    def _sums(self, starts: npt.NDArray[np.intp], end: int) -> tuple[Floats, Floats, Floats]:
        """From each start: seconds on one machine, parameters, these with activations."""
        parameters, activations = (
            total[end] - np.concatenate(([0.0], total))[starts]
            for total in (self.states.parameter_bytes, self.states.activation_bytes)
        )
        return self.unit_s[starts, end], parameters, parameters + activations

    def _fitting(self, seconds: Floats, kept: Floats, times: Floats) -> Floats:
        if self.rules.memory_bytes is None:
            return seconds
        return np.where(times * kept <= self.rules.memory_bytes, seconds, np.inf)

    def pieces(self, start: int, end: int, machines: int) -> Iterator[Piece]:
        """Stages, the last one first, that take ``best[machines, start, end]``.

        Of several: one stage, else the last stage on fewest machines, else with most layers.
        """
        while True:
            best = self.best[machines, start, end]
            alone = self.alone(np.array([start]), end)[:, 0]
            if machines <= len(alone) and alone[machines - 1] == best:
                yield Piece(start, end, machines)
                return
            if self.rules.fewer and self.best[machines - 1, start, end] == best:
                machines -= 1
                continue
            last = self.last(end, machines)
            rest = self.best[machines - len(last) : machines, start, self.states.below[end]]
            replicas, k = np.argwhere(np.maximum(rest[::-1], last) == best)[0]
            split = int(self.states.below[end][k])
            yield Piece(split + 1, end, int(replicas) + 1)
            end, machines = split, machines - int(replicas) - 1


def solve(
    states: States,
    level: Level,
    inner: int,
    model: CostModel,
    rules: Rules,
    unit_s: Floats,
    *,
    whole: bool,
    done: Callable[[str], None],
) -> Solved:
    """One level's table, from the level's below; ``whole``: for the network from its first layer.

    ``done`` is called with a label once per state. Raises PlanError where the table
    would have more than MOST_NUMBERS.
    """
    count, rows = len(states), 1 if whole else len(states) + 1
    if (level.count + 1) * rows * count > MOST_NUMBERS:
        raise PlanError(
            f"{states.profile.name}: {count} ways to cut it in two and a level of {level.count} "
            f"inside another are too many; merge layers, or take smaller levels"
        )
    best = np.full((level.count + 1, rows, count), np.inf)
    solved = Solved(states, level, inner, model, rules, unit_s, best)
    for end in range(count):
        starts = np.array([0]) if whole else np.concatenate(([0], states.below[end] + 1))
        alone = solved.alone(starts, end)
        best[1 : len(alone) + 1, starts, end] = alone
        for splits in _splits(states, end, whole, _BLOCK // level.count):
            _extend(solved, splits, end)
        if rules.fewer:
            best[:, starts, end] = np.minimum.accumulate(best[:, starts, end])
        done("planning")
    return solved


class _Splits(NamedTuple):
    """Pairs of a start and a state between it and an end, sorted by start.

    ``between`` are positions in the end's states below; pairs from ``firsts[g]`` on have
    one start.
    """

    starts: npt.NDArray[np.intp]
    between: npt.NDArray[np.intp]
    firsts: npt.NDArray[np.intp]


def _splits(states: States, end: int, whole: bool, most: int) -> Iterator[_Splits]:
    """All of them, about ``most`` at a time.

    Only pairs of which one state is part of the other: of wide graphs these are few,
    an eighth of all in GNMT.
    """
    below = states.below[end]
    if not len(below):
        return
    if whole:
        yield _Splits(np.zeros(len(below), np.intp), np.arange(len(below)), np.array([0]))
        return
    rows = [np.concatenate(([0], states.below[k] + 1)) for k in below]
    starts = np.concatenate(rows)
    order = np.argsort(starts.astype(np.uint16), kind="stable")  # a radix sort
    starts, between = starts[order], np.repeat(np.arange(len(below)), list(map(len, rows)))[order]
    firsts = np.flatnonzero(np.diff(starts, prepend=-1))
    ends = np.append(firsts[1:], len(starts))
    for groups in np.array_split(np.arange(len(firsts)), 1 + len(starts) // most):
        if len(groups):
            part = slice(firsts[groups[0]], ends[groups[-1]])
            yield _Splits(starts[part], between[part], firsts[groups] - part.start)


def _extend(solved: Solved, splits: _Splits, end: int) -> None:
    """Improve ``best[:, starts, end]`` by every last stage after a state between."""
    best, rules = solved.best, solved.rules
    between = solved.states.below[end][splits.between]
    # Rows of machines one after the other in memory, unlike what best[:, i, j] gives.
    before = best.reshape(len(best), -1).take(splits.starts * best.shape[2] + between, axis=1)
    own = splits.starts[splits.firsts]
    last = None
    for machines in range(2, len(best)):
        if last is None or rules.memory_bytes is not None:
            used = machines if rules.memory_bytes is not None else len(best) - 1
            last = solved.last(end, used).take(splits.between, axis=1)
        most = min(machines - 1, len(last))
        slowest = np.maximum(before[machines - most : machines][::-1], last[:most]).min(axis=0)
        found = np.minimum.reduceat(slowest, splits.firsts)
        best[machines, own, end] = np.minimum(best[machines, own, end], found)
