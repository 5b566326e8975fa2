"""Running a pipeline that never flushes for as long as it takes to see its rhythm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import gcd, lcm

from planners import PlanError
from planners.plan import Pipeline
from simulator.analysis.period import mean_period, micro_batch_ends, steady_period
from simulator.engine.operations import Program
from simulator.engine.replay import run
from simulator.engine.timeline import Timeline

MOST_TURNS = 1 << 11
"""Micro-batches that are run in search of a rhythm; then the second half's mean is taken."""


def in_the_long_run(
    pipeline: Pipeline,
    program: Callable[[int], Program],
    *,
    whole_batch: bool,
) -> Timeline:
    """The run of a ``program`` of so many batches whose rhythm is steady, and what one takes.

    The last micro-batches hurry, as none follow them: as many as can be in flight at
    once are left out. Weights are updated with each micro-batch, or each ``whole_batch``.
    Where no rhythm is seen the time is the mean of the second half.
    """
    in_flight = sum(pipeline.replicas) + 1
    unit = lcm(*pipeline.replicas, pipeline.micro_batches if whole_batch else 1)
    batches = pipeline.batches or _enough(5 * unit + 3 * in_flight, pipeline)
    if batches % (rounds := _rounds(pipeline)):
        raise PlanError(
            f"{batches} batches of {pipeline.micro_batches} do not go round all replicas; take "
            f"{-(-batches // rounds) * rounds}"
        )
    while True:
        timeline = run(program(batches))
        turns = max(batches * pipeline.micro_batches - in_flight, 1)
        period = steady_period(timeline, turns, unit)
        if period or pipeline.batches or 2 * batches * pipeline.micro_batches > MOST_TURNS:
            break
        batches *= 2
    each = period.micro_batch_ps if period else mean_period(micro_batch_ends(timeline), turns)
    batch_ps = round(each * pipeline.micro_batches)
    return replace(timeline, batch_ps=batch_ps, period=period, batches=batches)


def _enough(turns: int, pipeline: Pipeline) -> int:
    """Batches with so many turns, of which every replica has as many."""
    unit = _rounds(pipeline)
    return max(-(-turns // (unit * pipeline.micro_batches)), 1) * unit


def _rounds(pipeline: Pipeline) -> int:
    """The fewest batches whose micro-batches go round all replicas."""
    return lcm(*(many // gcd(many, pipeline.micro_batches) for many in pipeline.replicas))
