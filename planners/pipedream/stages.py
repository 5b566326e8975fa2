"""The pipeline that PipeDream's dynamic program finds for a profile on a hierarchy of machines.

Level by level from the innermost: what a level takes for a stretch of layers on all of its
machines is what one machine of the next level takes. Exact: the least possible
value of its formula over all cuts between states and all numbers of replicas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from planners.errors import PlanError
from planners.pipedream.costs import CostModel
from planners.pipedream.hierarchy import Level
from planners.pipedream.recurrence import Piece, Rules, Solved, solve
from planners.pipedream.states import Floats, States


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
    if rules.straight and len(states) < devices:
        return (
            f"{states.profile.name}: a straight pipeline on {devices} devices has as many stages, "
            f"but the network can be cut into {len(states)} at most; take fewer devices"
        )
    if rules.memory_bytes is not None:
        return (
            f"{states.profile.name}: no plan on {devices} devices keeps its minibatches in flight "
            f"within {rules.memory_bytes:g} bytes a device; allow more memory, or more devices"
        )
    return f"{states.profile.name}: no plan on {devices} devices; take fewer"
