"""Replicas of stages that make up several pipelines which do the same: one of them is followed."""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from hardware import Array
from planners import Place
from planners.plan import Pipeline
from simulator.lowering.execution import Execution
from simulator.lowering.schedules.schedule import Schedule


def alike_pipelines(
    pipeline: Pipeline, schedule: Schedule, array: Array, execution: Execution
) -> int:
    """Into how many pipelines this one falls apart that do the same at the same time.

    Replicas of 4 and 2 take micro-batches in turn: those of even number meet the first
    and third replica of the one and the first of the other, and no others. On the papers'
    links such pipelines do not meet but to sum gradients. On wires they may.
    """
    if execution.model == "deployed" or not schedule.flushes or execution.inference:
        return 1
    for place in pipeline.places:
        firsts = range(place.first, place.first + place.count, place.each)
        if len({array.part(first, place.each).group for first in firsts}) > 1:
            return 1
    return gcd(*pipeline.replicas, pipeline.micro_batches)


def one_pipeline(pipeline: Pipeline, copies: int) -> Pipeline:
    """One of the alike pipelines: its replicas, and its micro-batches."""
    if copies == 1:
        return pipeline
    places = tuple(
        Place(place.first, place.count // copies, place.replicas // copies)
        for place in pipeline.places
    )
    return replace(pipeline, places=places, micro_batches=pipeline.micro_batches // copies)
