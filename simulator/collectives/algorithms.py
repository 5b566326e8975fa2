"""Collective algorithms: which members send to which, step by step.

What a step loads is worked out for groups that run the same collective at the
same time, and depends on no bytes, bandwidths or latencies: it is made once
and kept. Which algorithm applies where is said by rules, before any message is
made.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import cast

import numpy as np

from simulator.collectives.cable_rings import (
    cable_chains,
    cable_rings,
    cables,
    in_switch,
    one_group,
    summing_switch,
)
from simulator.collectives.cache import cached
from simulator.collectives.groups import Box, Groups
from simulator.collectives.messages import (
    Carried,
    CollectivePhase,
    Pattern,
    add,
    following,
    phase_of,
)
from simulator.engine.jobs import Ints

COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast")
REDUCES = ("all-reduce", "reduce-scatter", "all-gather")


class CollectiveError(ValueError):
    """A collective that does not exist, or an algorithm that does not apply."""


def ring(groups: Groups, *, both_ways: bool = False) -> Pattern:
    """Pieces go round one way, n - 1 steps; or half of every piece each way."""
    n = groups.size
    carried = groups.ring.carry(*following(np.arange(n), 0, both_ways=both_ways))
    return (phase_of(carried, (n - 1) / n / (2 if both_ways else 1), n - 1),)


def exchanges(groups: Groups) -> Pattern:
    """The whole tensor is exchanged with neighbours at distance 1, 2, 4, ..."""
    distances = [1 << k for k in range(groups.size.bit_length() - 1)]
    return tuple(phase_of(groups.exchange(distance), 1.0) for distance in distances)


def torus_one_way(groups: Groups) -> Pattern:
    """Rings along x, then on the pieces along y (and z)."""
    box, sides = _box(groups)
    phases, pieces = [], 1
    for axis, n in enumerate(sides):
        carried = box.carry(*following(_places(sides), axis, both_ways=False))
        phases.append(phase_of(carried, (n - 1) / n / pieces, n - 1))
        pieces *= n
    return tuple(phases)


def _box(groups: Groups) -> Box:
    return cast("Box", groups.box)  # there is one: that is a rule of the algorithms that ask


def _places(sides: tuple[int, ...]) -> Ints:
    return np.arange(prod(sides)).reshape(sides)


def torus(groups: Groups) -> Pattern:
    """All directions at once: one part of the tensor per dimension, half of it each way.

    Part k takes the dimensions in turn from the k-th on; a phase ends for all
    parts together. Parts are as large as makes the first phase, which has most
    to do, as long in all dimensions: on equal sides they are equal.
    """
    box, sides = _box(groups)
    ways = [
        box.carry(*following(_places(sides), axis, both_ways=True)) for axis in range(len(sides))
    ]
    return tuple(_turn(ways, sides, turn) for turn in range(len(sides)))


def _turn(ways: list[Carried], sides: tuple[int, ...], turn: int) -> CollectivePhase:
    """The turn-th phase: part k in dimension k + turn, on what is left of it."""
    dimensions, shares = len(sides), _parts(sides)
    axes = [(part + turn) % dimensions for part in range(dimensions)]
    weights = []
    for part, axis in enumerate(axes):
        pieces = prod(sides[(part + earlier) % dimensions] for earlier in range(turn))
        weights.append((sides[axis] - 1) / sides[axis] / pieces * shares[part] / 2)
    most = max(weights)
    together = add([(ways[axis], w / most) for axis, w in zip(axes, weights, strict=True)])
    return phase_of(together, most, max(sides) - 1)


def _parts(sides: tuple[int, ...]) -> list[float]:
    """How much of the tensor starts in each dimension: of 16 x 4, 4/9 along x and 5/9 along y.

    On a ring of two both ways are one cable.
    """
    if min(sides) == 1 or len(set(sides)) == 1:
        return [1 / len(sides)] * len(sides)
    rates = [side / (side - 1) * (2 if side > 2 else 1) for side in sides]
    return [rate / sum(rates) for rate in rates]


def direct(groups: Groups) -> Pattern:
    """Everyone sends everyone its piece at once.

    All pieces that leave a member by one port count as one flow when the port is shared: beside
    another message they have half of it, not 31 of 32 parts.
    """
    one = _to_all(groups).load.flows.max(initial=1.0)
    by_port = min(max(float(one), 1.0), groups.size - 1)
    load, far = groups.everyone()
    alike = replace(load, flows=load.flows / by_port)
    return (CollectivePhase(alike, far, by_port / groups.size),)


def binomial(groups: Groups) -> Pattern:
    """Those who have it send it to as many others, the farthest first."""
    phases, n = [], groups.size
    for k in reversed(range((n - 1).bit_length())):
        sources = np.arange(0, n - (1 << k), 2 << k)
        phases.append(phase_of(groups.carry(sources, sources + (1 << k)), 1.0))
    return tuple(phases)


def pipelined(groups: Groups) -> Pattern:
    """Chunks follow each other along a chain of all members."""
    members = np.arange(groups.size)
    phase = phase_of(groups.chain.carry(members[:-1], members[1:]), 1.0)
    return (replace(phase, stages=groups.size - 2),)


def unicast(groups: Groups) -> Pattern:
    """The first member sends to each other one by itself, all at once."""
    return (phase_of(_to_all(groups), 1.0),)


def multicast(groups: Groups) -> Pattern:
    """The first member sends once; where ways part, the network copies what passes.

    Along a row of five the links carry 4, 3, 2 and 1 flows by unicast, and 1 each so.
    """
    load, far = _to_all(groups)
    return (CollectivePhase(replace(load, flows=np.minimum(load.flows, 1.0)), far, 1.0),)


def _to_all(groups: Groups) -> Carried:
    others = np.arange(1, groups.size)
    return groups.carry(np.zeros_like(others), others)


def scatter_gather(groups: Groups) -> Pattern:
    """Pieces go from the first member to all, dimension by dimension, and are gathered as by torus.

    One part of the tensor per dimension, as there: part k goes along dimension
    k first, from those who have it to their whole line, then along k + 1. On a link to each
    member pieces go to all at once, and from all to all.
    """
    if groups.box is None:
        return (phase_of(_to_all(groups), 1 / groups.size), *direct(groups))
    box, sides = _box(groups)
    root = np.unravel_index(int((box.rows[0] == groups.rows[0, 0]).argmax()), sides)
    there = (_scattered(box, sides, root, turn) for turn in range(len(sides)))
    return (*there, *torus(groups)[::-1])


def _scattered(
    box: Groups, sides: tuple[int, ...], root: tuple[np.intp, ...], turn: int
) -> CollectivePhase:
    """The turn-th phase of a scatter: everyone who has some of a part sends it along a line."""
    dimensions, places, parts = len(sides), _places(sides), _parts(sides)
    ways: list[tuple[Carried, float]] = []
    for part in range(dimensions):
        done = [(part + earlier) % dimensions for earlier in range(turn)]
        axis = (part + turn) % dimensions
        if sides[axis] == 1:
            continue
        have = places[
            tuple(slice(None) if d in (*done, axis) else root[d] for d in range(dimensions))
        ]
        line = sorted((*done, axis)).index(axis)
        sources, targets = np.broadcast_arrays(
            np.take(have, [root[axis]], axis=line), np.delete(have, root[axis], axis=line)
        )
        share = parts[part] / (prod(sides[d] for d in done) * sides[axis])
        ways.append((box.carry(sources.ravel(), targets.ravel()), share))
    most = max(share for _, share in ways)
    return phase_of(add([(carried, share / most) for carried, share in ways]), most)


def spread(groups: Groups) -> str | None:
    """What a scatter needs that is not there: a grid, or a link from the first to each member."""
    if groups.box is not None or _to_all(groups).load.flows.max(initial=0.0) <= 1:
        return None
    return "needs groups that are boxes of a ring, torus or mesh, or all linked"


def _laps(collective: str, phases: Pattern) -> Pattern:
    """Round and round: an all-reduce goes on where a reduce-scatter ends."""
    laps = 2 if collective == "all-reduce" else 1
    return tuple(replace(p, share=laps * p.share, count=laps * p.count) for p in phases)


def _on_cables(collective: str, phases: Pattern) -> Pattern:
    """Round and round; an all-reduce along a chain, there and back, has all once each way."""
    return tuple(replace(p, share=min(p.share, 1.0)) for p in _laps(collective, phases))


def _there_and_back(collective: str, phases: Pattern) -> Pattern:
    """A reduce-scatter's phases as they are, backwards for an all-gather, or both."""
    there = () if collective == "all-gather" else phases
    back = () if collective == "reduce-scatter" else phases[::-1]
    return there + back


def _halves(collective: str, phases: Pattern) -> Pattern:
    """Halves with neighbours first, then smaller pieces further away; and back."""
    pieces = tuple(replace(phase, share=0.5 ** (k + 1)) for k, phase in enumerate(phases))
    return _there_and_back(collective, pieces)


def _twice(collective: str, phases: Pattern) -> Pattern:
    return phases * 2 if collective == "all-reduce" else phases


@dataclass(frozen=True, slots=True)
class Algorithm:
    """How a collective is done, which ones it ``does``, and for which groups.

    ``steps`` makes what depends on the groups, and ``whole`` says what a
    collective is of these steps. The others are rules; ``asked`` for by name alone is
    what not every network can do, or nobody would choose, and one group by itself.
    """

    name: str
    does: tuple[str, ...]
    steps: Callable[[Groups], Pattern]
    whole: Callable[[str, Pattern], Pattern] = lambda _, phases: phases
    powers_of_two: bool = False
    boxes: bool = False
    needs: Callable[[Groups], str | None] = lambda _: None
    asked: bool = False

    @property
    def copies(self) -> bool:
        """Whether members pass pieces on to each other, and copy one of their own."""
        return "broadcast" not in self.does and self.steps is not in_switch

    def refusal(self, collective: str, groups: Groups) -> str | None:
        """Why it does not apply, if it does not; groups of one have nothing to do."""
        if groups.size == 1:
            return None
        if collective not in self.does:
            return f"{self.name} does not do {collective}"
        if self.powers_of_two and groups.size & (groups.size - 1):
            return f"{self.name} needs a power of two members, not {groups.size}"
        if self.boxes and groups.box is None:
            return f"{self.name} needs groups that are boxes of a ring, torus or mesh"
        why = self.needs(groups)
        return why and f"{self.name} {why}"

    def pattern(self, collective: str, groups: Groups) -> Pattern:
        """Its phases where it applies; the steps are made once for all collectives and sizes."""
        if groups.size == 1:
            return ()
        steps = cached(f"steps of {self.name}", groups.key, lambda: self.steps(groups))
        return self.whole(collective, steps)


FLAT = {
    algorithm.name: algorithm
    for algorithm in (
        Algorithm("ring", REDUCES, ring, _laps),
        Algorithm("ring-two-way", REDUCES, partial(ring, both_ways=True), _laps),
        Algorithm("recursive-doubling", ("all-reduce",), exchanges, powers_of_two=True),
        Algorithm("halving-doubling", REDUCES, exchanges, _halves, powers_of_two=True),
        Algorithm("torus-one-way", REDUCES, torus_one_way, _there_and_back, boxes=True),
        Algorithm("torus", REDUCES, torus, _there_and_back, boxes=True),
        Algorithm("direct", (*REDUCES, "all-to-all"), direct, _twice),
        Algorithm("cable-rings", REDUCES, cable_rings, _on_cables, needs=cables),
        Algorithm("in-switch", ("all-reduce",), in_switch, needs=summing_switch),
        Algorithm("binomial", ("broadcast",), binomial),
        Algorithm("pipelined", ("broadcast",), pipelined),
        Algorithm("cable-chains", ("broadcast",), cable_chains, needs=cables),
        Algorithm("scatter-gather", ("broadcast",), scatter_gather, needs=spread),
        Algorithm("unicast", ("broadcast",), unicast, needs=one_group, asked=True),
        Algorithm("multicast", ("broadcast",), multicast, needs=one_group, asked=True),
    )
}
"""The algorithms that treat all members alike, by name, in the order in which they are tried."""
