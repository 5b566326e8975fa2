"""Two halves of a part that send each other bytes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hardware import Wires
from simulator.collectives.algorithms import CollectiveError
from simulator.collectives.messages import Carried, farthest
from simulator.engine.jobs import Floats, Ints, Job, Load

ROUNDING = 1e-12
"""Of what two halves exchange: smaller pieces are rounding noise."""


def swap(
    wires: Wires,
    first_cores: ArrayLike,
    second_cores: ArrayLike,
    to_first: ArrayLike,
    to_second: ArrayLike,
) -> tuple[Job]:
    """Two halves send each other bytes at once, evenly from all of a half's cores.

    ``to_first`` and ``to_second`` are the bytes that each core of the half
    receives (or one number for all of them), from cores of the other half as
    they stand opposite each other.
    """
    first = np.ascontiguousarray(first_cores, dtype=np.int64)
    second = np.ascontiguousarray(second_cores, dtype=np.int64)
    if not len(first) or not len(second) or np.isin(first, second).any():
        raise CollectiveError("a swap is between two halves that have cores, and none in common")
    ways = []
    for source, target, amounts in ((second, first, to_first), (first, second, to_second)):
        bytes_ = np.broadcast_to(np.asarray(amounts, dtype=np.float64), target.shape)
        if (total := float(bytes_.sum())) > 0:
            way, largest = _one_way(wires, source, target, bytes_ / total)
            ways.append((way, largest * total))
    most = max((largest for _, largest in ways), default=0.0)
    load = np.zeros(len(wires.bandwidth))
    for way, largest in ways:
        load[way.load.links] += way.load.flows * (largest / most)
    latency_s = max((wires.message_latency_s(*way.far) for way, _ in ways), default=0.0)
    return (Job("swap", Load.of(load), most, latency_s),)


def _one_way(wires: Wires, sources: Ints, targets: Ints, shares: Floats) -> tuple[Carried, float]:
    """Messages between those who stand opposite each other, and the largest one's share.

    Both halves are laid out on a line of length one, sources evenly and
    targets by their shares; those that overlap exchange the overlap. Two
    sources A, B and targets c, d that want a quarter and the rest:

        A: 0 to 1/2         B: 1/2 to 1                  marks  0   1/4   1/2
        c: 0 to 1/4   d: 1/4 to 1             messages  A-c 1/4, A-d 1/4, B-d 1/2

    Every mark begins a message that goes on to the next one; whose it is is
    looked up at its middle, where rounding cannot reach.
    """
    ends = np.cumsum(shares)
    ends[-1] = 1.0
    starts = np.arange(len(sources)) / len(sources)
    marks = np.unique(np.append(starts, ends[:-1]))
    lengths = np.diff(marks, append=1.0)
    marks, lengths = marks[lengths > ROUNDING], lengths[lengths > ROUNDING]
    middles = marks + lengths / 2
    places = np.minimum((middles * len(sources)).astype(np.int64), len(sources) - 1)
    a, b = sources[places], targets[np.searchsorted(ends, middles)]
    flows = wires.loads(a, b, lengths / lengths.max())
    return Carried(Load.of(flows), farthest(wires, a, b)), float(lengths.max())
