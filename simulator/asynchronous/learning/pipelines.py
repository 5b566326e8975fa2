"""A model in stages, learned through a pipeline's run: each stage has its own weight versions.

A stage has a piece of the model. A micro-batch's gradient is taken on the model that
it met: of every stage the version that the stage's forward pass of it used. PipeDream's
stages use the newest there is then, two-buffered ones the one before the last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from simulator.analysis.stages import PassSpan, passes
from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.learning.models import Curve, Learned
from simulator.asynchronous.learning.problems import Problem
from simulator.engine.jobs import Floats
from simulator.engine.operations import Part
from simulator.engine.timeline import Timeline


class Update(NamedTuple):
    """A stage's update: when, after which micro-batches' gradients."""

    at_ps: int
    stage: int
    micro_batches: tuple[int, ...]


class Stages:
    """Of each stage the version that each micro-batch ``used``; ``updates`` in their order."""

    def __init__(self, timeline: Timeline) -> None:
        self.used: list[dict[int, int]] = []
        self.updates: list[Update] = []
        for stage, worker in enumerate(_workers(timeline)):
            done = list(passes(timeline, worker))
            self.used.append({p.micro_batch: p.version for p in done if Part.FORWARD in p.parts})
            self.updates += _updates(stage, done)
        self.updates.sort()

    @property
    def staleness(self) -> Counter[int]:
        """Per gradient that was applied, how many updates its stage had seen since its forward."""
        version, found = Counter[int](), Counter[int]()
        for _, stage, micro_batches in self.updates:
            found.update(
                version[stage] - self.used[stage][micro_batch] for micro_batch in micro_batches
            )
            version[stage] += 1
        return found


def _workers(timeline: Timeline) -> Iterator[int]:
    """The first worker of each stage; raises TrainingError where a stage has several places."""
    ranks: dict[int, int] = {}
    for number, worker in enumerate(timeline.program.workers):
        if (mine := worker.rank_program) is None:
            raise TrainingError("learning follows the stages of a pipeline; this run has none")
        if mine.replica or {instruction.stage for instruction in mine.instructions} != {mine.rank}:
            raise TrainingError("learning follows pipelines of one place for every stage")
        ranks.setdefault(mine.rank, number)
    return iter(ranks[rank] for rank in sorted(ranks))


def _updates(stage: int, done: list[PassSpan]) -> Iterator[Update]:
    micro_batches: list[int] = []
    for one in done:
        if Part.WEIGHTS in one.parts:
            micro_batches.append(one.micro_batch)
        if Part.UPDATE in one.parts:
            yield Update(one.end_ps, stage, tuple(micro_batches))
            micro_batches = []


def learn_pipeline(problem: Problem, timeline: Timeline, target: float | None = None) -> Learned:
    """Loss against simulated seconds, and the model at the end; when the ``target`` was reached."""
    stages = Stages(timeline)
    pieces = np.array_split(np.arange(problem.size), len(stages.used))
    first = problem.start()
    versions = [[first[here]] for here in pieces]
    gradients: dict[int, Floats] = {}

    def gradient(micro_batch: int) -> Floats:
        if micro_batch not in gradients:
            met = [of[used[micro_batch]] for of, used in zip(versions, stages.used, strict=True)]
            gradients[micro_batch] = problem.gradient(np.concatenate(met), 0, micro_batch)
        return gradients[micro_batch]

    def newest() -> Floats:
        return np.concatenate([of[-1] for of in versions])

    curve = Curve(problem, len(stages.updates), target)
    curve.after(0, 0, newest)
    for number, (at_ps, stage, micro_batches) in enumerate(stages.updates, 1):
        total = np.sum(
            [gradient(micro_batch)[pieces[stage]] for micro_batch in micro_batches], axis=0
        )
        versions[stage].append(versions[stage][-1] - problem.rate * total / len(micro_batches))
        curve.after(number, at_ps, newest)
    return Learned(tuple(curve.points), newest(), newest()[None], curve.reached_s)
