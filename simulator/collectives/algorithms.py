"""Collective algorithms as patterns: which messages cross which links, step by step.

A pattern is made for equal groups of cores that run the same collective at the
same time (``groups``: groups by members), and does not depend on bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from hardware import Wires
from simulator.collectives.ring_order import boxes, in_ring_order
from simulator.engine.jobs import Floats, Ints, Load

COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast")
_MESSAGES_AT_ONCE = 1 << 17
_REDUCES = ("all-reduce", "reduce-scatter", "all-gather")


class CollectiveError(ValueError):
    """A collective that does not exist, or an algorithm that does not apply."""


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Alike steps in a row: ``share`` of a collective's bytes per flow, over all of them.

    ``latency_s`` is that of one of the ``count`` steps. A pipelined step is
    cut into chunks, which pass ``stages`` more members after the first.
    """

    load: Load
    share: float
    latency_s: float
    count: int = 1
    stages: int = 0


Steps = tuple[Step, ...]
Builder = Callable[[Wires, str, Ints], Steps]


def _step(wires: Wires, sources: Ints, targets: Ints, share: float, count: int = 1) -> Step:
    """Messages from every source to its target, one flow each."""
    load = Load.of(wires.loads(sources, targets))
    return Step(load, share, wires.message_latency_s(sources, targets), count)


def ring(wires: Wires, collective: str, groups: Ints) -> Steps:
    """Pieces go round one way: n - 1 steps, twice for an all-reduce."""
    laps = _laps("ring", collective)
    members, n = in_ring_order(wires, groups), groups.shape[1]
    return (_step(wires, members, np.roll(members, -1, 1), laps * (n - 1) / n, laps * (n - 1)),)


def ring_two_way(wires: Wires, collective: str, groups: Ints) -> Steps:
    """Half of every piece goes round each way."""
    laps = _laps("ring-two-way", collective)
    members, n = in_ring_order(wires, groups), groups.shape[1]
    sources = np.concatenate([members, members])
    targets = np.concatenate([np.roll(members, -1, 1), np.roll(members, 1, 1)])
    return (_step(wires, sources, targets, laps * (n - 1) / n / 2, laps * (n - 1)),)


def _laps(algorithm: str, collective: str) -> int:
    if collective not in _REDUCES:
        raise CollectiveError(f"{algorithm} does not do {collective}")
    return 2 if collective == "all-reduce" else 1


def recursive_doubling(wires: Wires, collective: str, groups: Ints) -> Steps:
    """The whole tensor is exchanged with neighbours at distance 1, 2, 4, ..."""
    if collective != "all-reduce":
        raise CollectiveError(f"recursive-doubling does not do {collective}")
    return tuple(
        _step(wires, groups, groups[:, partner], 1.0)
        for partner in _partners("recursive-doubling", groups.shape[1])
    )


def halving_doubling(wires: Wires, collective: str, groups: Ints) -> Steps:
    """Halves with neighbours first, then smaller pieces further away; and back."""
    _laps("halving-doubling", collective)
    scatter = tuple(
        _step(wires, groups, groups[:, partner], 0.5 ** (k + 1))
        for k, partner in enumerate(_partners("halving-doubling", groups.shape[1]))
    )
    return _both_ways(collective, scatter)


def _partners(algorithm: str, n: int) -> list[Ints]:
    if n & (n - 1):
        raise CollectiveError(f"{algorithm} needs a power of two members, not {n}")
    return [np.arange(n) ^ (1 << k) for k in range(n.bit_length() - 1)]


def _both_ways(collective: str, scatter: Steps) -> Steps:
    """A reduce-scatter's steps as they are, backwards for an all-gather, or both."""
    there = () if collective == "all-gather" else scatter
    back = () if collective == "reduce-scatter" else scatter[::-1]
    return there + back


def torus_one_way(wires: Wires, collective: str, groups: Ints) -> Steps:
    """Rings along x, then on the pieces along y (and z); backwards to gather."""
    _laps("torus-one-way", collective)
    members = boxes(wires, groups)
    if members is None:
        raise CollectiveError("torus-one-way needs groups that are boxes of a ring, torus or mesh")
    scatter, pieces = [], 1
    for axis, n in list(enumerate(members.shape))[1:]:
        following = np.roll(members, -1, axis)
        scatter.append(_step(wires, members, following, (n - 1) / n / pieces, n - 1))
        pieces *= n
    return _both_ways(collective, tuple(scatter))


def torus(wires: Wires, collective: str, groups: Ints) -> Steps:
    """All directions at once: one part of the tensor per dimension, half of it each way.

    Part k takes the dimensions in turn from the k-th on; a phase ends for all
    parts together. On two dimensions: models.md's four directions.
    """
    _laps("torus", collective)
    members = boxes(wires, groups)
    if members is None:
        raise CollectiveError("torus needs groups that are boxes of a ring, torus or mesh")
    sides = members.shape[1:]
    ways = [_around(wires, members, axis + 1) for axis in range(len(sides))]
    scatter = tuple(_phase(wires, ways, sides, turn) for turn in range(len(sides)))
    return _both_ways(collective, scatter)


def _around(wires: Wires, members: Ints, axis: int) -> tuple[Floats, float]:
    """Load and latency of messages to both neighbours along an axis."""
    both = np.concatenate([members, members])
    neighbours = np.concatenate([np.roll(members, -1, axis), np.roll(members, 1, axis)])
    return wires.loads(both, neighbours), wires.message_latency_s(both, neighbours)


def _phase(
    wires: Wires,
    ways: list[tuple[Floats, float]],
    sides: tuple[int, ...],
    turn: int,
) -> Step:
    """The turn-th phase: part k in dimension k + turn, on what is left of it."""
    dimensions = len(sides)
    load, weights = np.zeros(len(wires.bandwidth)), []
    for part in range(dimensions):
        axis = (part + turn) % dimensions
        pieces = prod(sides[(part + earlier) % dimensions] for earlier in range(turn))
        weights.append((sides[axis] - 1) / sides[axis] / pieces / (2 * dimensions))
    for part, weight in enumerate(weights):
        load += ways[(part + turn) % dimensions][0] * (weight / max(weights))
    count = max(sides) - 1
    return Step(Load.of(load), max(weights), max(latency for _, latency in ways), count)


def direct(wires: Wires, collective: str, groups: Ints) -> Steps:
    """Everyone sends everyone its piece at once; twice for an all-reduce."""
    if collective == "broadcast":
        raise CollectiveError("direct does not do broadcast")
    n = groups.shape[1]
    load, latency_s = np.zeros(len(wires.bandwidth)), 0.0
    at_once = max(_MESSAGES_AT_ONCE // groups.size, 1)
    for first in range(1, n, at_once):
        distances = np.arange(first, min(first + at_once, n))[:, np.newaxis]
        others = groups[:, (np.arange(n) + distances) % n]
        sources = np.broadcast_to(groups[:, np.newaxis], others.shape)
        load += wires.loads(sources, others)
        latency_s = max(latency_s, wires.message_latency_s(sources, others))
    step = Step(Load.of(load), 1 / n, latency_s)
    return (step, step) if collective == "all-reduce" else (step,)


def binomial(wires: Wires, collective: str, groups: Ints) -> Steps:
    """Those who have it send it to as many others, the farthest first."""
    _broadcasts("binomial", collective)
    steps, n = [], groups.shape[1]
    for k in reversed(range((n - 1).bit_length())):
        sources = np.arange(0, n - (1 << k), 2 << k)
        steps.append(_step(wires, groups[:, sources], groups[:, sources + (1 << k)], 1.0))
    return tuple(steps)


def pipelined(wires: Wires, collective: str, groups: Ints) -> Steps:
    """Chunks follow each other along a chain of all members."""
    _broadcasts("pipelined", collective)
    ring_ = in_ring_order(wires, groups)
    start = np.argmax(ring_ == groups[:, :1], axis=1)[:, np.newaxis]
    chain = np.take_along_axis(ring_, (start + np.arange(groups.shape[1])) % groups.shape[1], 1)
    step = _step(wires, chain[:, :-1], chain[:, 1:], 1.0)
    return (replace(step, stages=groups.shape[1] - 2),)


def _broadcasts(algorithm: str, collective: str) -> None:
    if collective != "broadcast":
        raise CollectiveError(f"{algorithm} does not do {collective}")


BUILDERS: dict[str, Builder] = {
    "ring": ring,
    "ring-two-way": ring_two_way,
    "recursive-doubling": recursive_doubling,
    "halving-doubling": halving_doubling,
    "torus-one-way": torus_one_way,
    "torus": torus,
    "direct": direct,
    "binomial": binomial,
    "pipelined": pipelined,
}
