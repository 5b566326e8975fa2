"""What a schedule is: in which order a rank takes the passes of its micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from simulator.engine.operations import Part

FORWARD = frozenset({Part.FORWARD})
BACKWARD = frozenset({Part.BACKWARD, Part.WEIGHTS})
"""Errors and gradients of weights, as frameworks compute them: layer by layer."""
ERRORS = frozenset({Part.BACKWARD})
WEIGHTS = frozenset({Part.WEIGHTS})


class Rank(NamedTuple):
    """Who asks: place ``rank`` of ``ranks``, which has ``virtual`` stages.

    It takes ``micro_batches``; where each forward pass is followed by a backward one it
    computes ``ahead`` of them before (p - s - 1 where all have as many replicas).
    """

    rank: int
    ranks: int
    virtual: int
    micro_batches: int
    ahead: int


class Pass(NamedTuple):
    """One pass of the rank's ``number``-th micro-batch, through its ``chunk``-th stage."""

    parts: frozenset[Part]
    number: int
    chunk: int = 0


Order = Callable[[Rank], Iterator[Pass]]
"""A rank's passes, one after the other."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """An order with its name, and when weights change.

    One that ``flushes`` ends with the batch: all of its gradients are summed, then
    weights are updated. Others go on with the next batch meanwhile, and update
    after each micro-batch, or after a ``whole_batch``; backward then needs the
    version of the weights that forward used. ``check`` gives what is wrong with the
    replicas of each rank, a number of virtual stages and one of micro-batches, or nothing.
    """

    name: str
    order: Order
    says: str
    flushes: bool = True
    whole_batch: bool = True
    check: Callable[[Sequence[int], int, int], str | None] = lambda replicas, virtual, many: None
    least_virtual: int = 1
    """Stages of a place that somebody who asks for it must have: with fewer it is another."""


def no_virtual(replicas: Sequence[int], virtual: int, micro_batches: int) -> str | None:
    """For orders that know one stage a place."""
    del replicas, micro_batches
    return f"it has one stage a place, not {virtual}" if virtual > 1 else None
