"""Pipelines that do the same at the same time: one of them is followed.

Replicas of 4 and 2 take micro-batches in turn: those of even number meet the first and
third replica of the one and the first of the other, and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

import numpy as np

from hardware import Array, Wires, wires_of
from hardware.interconnect.routing import Subnet
from planners import Place
from planners.plan import Pipeline
from simulator.engine.jobs import Ints
from simulator.lowering.execution import Execution
from simulator.lowering.schedules.schedule import Schedule


def alike_pipelines(
    pipeline: Pipeline, schedule: Schedule, array: Array, execution: Execution
) -> int:
    """Into how many pipelines this one falls apart that do the same at the same time.

    On the papers' links they do not meet but to sum gradients; on wires where they share no
    link, and are joined alike. (The sum of gradients is of all of them, and done once.)
    """
    if not schedule.flushes or execution.inference:
        return 1
    for place in pipeline.places:
        if place.parts or place.turns or len({array.part(*one).group for one in place.ranges}) > 1:
            return 1
    copies = gcd(*pipeline.replicas, pipeline.micro_batches)
    if copies == 1 or execution.model != "deployed":
        return copies
    return copies if _share_no_link(wires_of(array), _cores(pipeline, copies)) else 1


def _cores(pipeline: Pipeline, copies: int) -> Ints:
    """The cores of each pipeline, a row each, in the same order."""
    replicas = [
        np.arange(place.first, place.first + place.count).reshape(-1, copies, place.each)
        for place in pipeline.places
    ]
    return np.concatenate([one.transpose(1, 0, 2).reshape(copies, -1) for one in replicas], axis=1)


def _share_no_link(wires: Wires, rows: Ints) -> bool:
    """Whether cores of no two rows have a link in common, and those of each are joined alike."""
    for subnet in wires.subnets:
        for joined in _links(subnet):
            mine = np.where(subnet.region[rows] < 0, -1, joined[rows])
            if not _alike_and_apart(mine):
                return False
        together = [_by_first(what[rows]) for what in (subnet.region, subnet.node)]
        if any((one != one[0]).any() for one in together):
            return False
    return True


def _links(subnet: Subnet) -> Sequence[Ints]:
    """By core a link that it may use, or, where routes are no ways up and down, its region."""
    return [way[subnet.node] for way in subnet.fabric.ways()] or [subnet.region]


def _alike_and_apart(rows: Ints) -> bool:
    """Whether no number (but -1: none) is in two rows, and all have theirs in the same places."""
    none = rows < 0
    each = np.concatenate([np.unique(row[row >= 0]) for row in rows])
    return len(np.unique(each)) == len(each) and not (none != none[0]).any()


def _by_first(rows: Ints) -> Ints:
    """Each row's numbers told by the place where they come up first: 7 7 9 as 0 0 2."""
    return np.stack(
        [
            first[place]
            for _, first, place in (
                np.unique(row, return_index=True, return_inverse=True) for row in rows
            )
        ]
    )


def one_pipeline(pipeline: Pipeline, copies: int) -> Pipeline:
    """One of the alike pipelines: its replicas, and its micro-batches."""
    if copies == 1:
        return pipeline
    places = tuple(
        Place(place.first, place.count // copies, place.replicas // copies)
        for place in pipeline.places
    )
    return replace(pipeline, places=places, micro_batches=pipeline.micro_batches // copies)
