"""Pipelines of PipeDream's measured profiles, run on the engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import pairwise

import numpy as np

from planners import Pipeline, Place, Plan, PlanError, Stage
from planners.pipeline import Profile, planned_part, read_profile
from planners.pipeline.masks import topological
from simulator import PICOSECONDS, Program
from simulator.engine.replay import run
from simulator.lowering.pipeline.profiled import MeasuredLayer, MeasuredStage, profiled
from simulator.lowering.pipeline.steady import in_the_long_run
from simulator.lowering.schedules.registry import schedule_of

PROFILES = resources.files("experiments") / "published" / "profiles"
"""PipeDream's published profiles (msr-fiddle/pipedream, commit 7db6a1c, MIT)."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A profile as it is run: ``batch`` times its minibatch, ``slower`` times its seconds."""

    model: str
    batch: float = 1.0
    slower: float = 1.0
    bytes_per_s: float = 1e9


class Measured:
    """A profile's layers in a topological order, and what crosses a cut behind each (bytes)."""

    def __init__(self, setting: Setting) -> None:
        profile = profile_of(setting.model)
        order = topological(len(profile.nodes), profile.edges)
        place = {node: i for i, node in enumerate(order)}
        time = setting.batch * setting.slower
        nodes = [profile.nodes[i] for i in order]
        self.layers = [
            MeasuredLayer(n.name, n.forward_s * time, n.backward_s * time, n.parameter_bytes)
            for n in nodes
        ]
        last = {u: max(place[w] for v, w in profile.edges if v == u) for u, _ in profile.edges}
        self.crossing = [
            sum(
                profile.nodes[u].activation_bytes * setting.batch
                for u, end in last.items()
                if place[u] <= i < end
            )
            for i in range(len(order))
        ]

    @property
    def single_s(self) -> float:
        """A minibatch on one device."""
        return sum(layer.forward_s + layer.backward_s for layer in self.layers)

    def cuts(self, replicas: Sequence[int], bytes_per_s: float) -> tuple[int, ...]:
        """Where stages with so many replicas begin, so that the paper's formula is least."""
        seconds = np.cumsum([0.0, *(x.forward_s + x.backward_s for x in self.layers)])
        weights = np.cumsum([0.0, *(x.parameter_bytes for x in self.layers)])
        sent = np.array([0.0, *self.crossing]) * 2 / bytes_per_s
        number = np.arange(len(seconds))
        least, came = np.where(number == 0, 0.0, np.inf), []
        for many in replicas:
            work = seconds[np.newaxis, :] - seconds[:, np.newaxis]
            sums = (weights[np.newaxis, :] - weights[:, np.newaxis]) * 2 * (many - 1) / many
            stage = np.maximum(work, sums / bytes_per_s) / many
            stage[number[np.newaxis, :] <= number[:, np.newaxis]] = np.inf
            before = np.maximum(least, np.where(number == 0, 0.0, sent))
            longest = np.maximum(before[:, np.newaxis], stage)
            came.append(longest.argmin(axis=0))
            least = longest.min(axis=0)
        firsts, end = list[int](), len(self.layers)
        for begins in reversed(came):
            end = int(begins[end])
            firsts.append(end)
        return tuple(reversed(firsts))


@cache
def profile_of(model: str) -> Profile:
    """A published profile, as PipeDream's program plans it."""
    with resources.as_file(PROFILES / f"{model}.txt") as path:
        return planned_part(read_profile(path))[0]


def minibatch_s(
    setting: Setting,
    replicas: Sequence[int],
    schedule: str = "pipedream",
    micro_batches: int = 1,
) -> float:
    """Seconds of a minibatch in the long run, or of each of a flushed batch's; on the engine.

    Data parallelism is one stage with all devices as replicas.
    """
    measured = Measured(setting)
    if len(replicas) > len(measured.layers):
        raise PlanError(f"{len(replicas)} stages for {len(measured.layers)} layers")
    firsts = measured.cuts(replicas, setting.bytes_per_s)
    ends = (*firsts[1:], len(measured.layers))
    stages = [
        MeasuredStage(tuple(measured.layers[first:end]), measured.crossing[end - 1])
        for first, end in zip(firsts, ends, strict=True)
    ]
    pipeline = _pipeline(measured, firsts, replicas, schedule, micro_batches)

    def program(batches: int) -> Program:
        return profiled(stages, pipeline, setting.bytes_per_s, batches)

    how = schedule_of(schedule)
    if how.flushes:
        return run(program(1)).makespan_ps / PICOSECONDS / micro_batches
    done = in_the_long_run(pipeline, program, run, whole_batch=how.whole_batch)
    return done.iteration_ps / PICOSECONDS / micro_batches


def _pipeline(
    measured: Measured,
    firsts: Sequence[int],
    replicas: Sequence[int],
    schedule: str,
    micro_batches: int,
) -> Pipeline:
    behind = np.cumsum([0, *replicas]).tolist()
    places = [Place(first, many, many) for first, many in zip(behind, replicas, strict=False)]
    stages = []
    for k, (first, end) in enumerate(pairwise((*firsts, len(measured.layers)))):
        names = tuple(layer.name for layer in measured.layers[first:end])
        stages.append(Stage(first, k, Plan("measured", "", 1, "time", names, None)))
    return Pipeline(tuple(stages), tuple(places), schedule, micro_batches)
