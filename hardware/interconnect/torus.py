"""Rings, tori and meshes: nodes with coordinates, joined to their neighbours."""

from __future__ import annotations

from functools import cache, cached_property, partial
from math import prod

import numpy as np

from hardware.interconnect.fabric import Fabric, Floats, Ints, Label, Nodes, cut, tally
from hardware.topology import Topology

AXES = "xyz"
_PLUS, _MINUS = 0, 1


@cache
def places(shape: tuple[int, ...]) -> Ints:
    """Coordinates (nodes by dimensions) in the order in which nodes are numbered.

    The longer dimension is halved again and again (the first of equally long
    ones, the odd one to the first half), so that a half of the nodes is a
    half of the grid, and the last four of a power of two a 2 x 2 block. Of a
    grid of 4 x 2, rows and columns by number:

        0 2 | 4 6        the first half is 0 to 3, its first half 0 and 1
        1 3 | 5 7        (rows are the second dimension here)
    """
    side = max(shape)
    if side == 1:
        return np.zeros((1, len(shape)), dtype=np.int64)
    longest = shape.index(side)
    first, second = list(shape), list(shape)
    first[longest], second[longest] = side - side // 2, side // 2
    offset = np.zeros(len(shape), dtype=np.int64)
    offset[longest] = first[longest]
    return np.concatenate([places(tuple(first)), places(tuple(second)) + offset])


class Grid(Fabric):
    """A ring, torus or mesh of one to three dimensions, or ``copies`` of it side by side.

    Routes take the dimensions in order, each the shorter way; half way round
    a ring of even length, messages from even coordinates go up and from odd
    ones down. A dimension of two has one cable, with or without ``wrap``. A
    link is as fast as the slower of the nodes it joins (``ports``, B/s).
    """

    has_places = True

    def __init__(
        self,
        shape: tuple[int, ...],
        ports: Floats,
        latency_s: float,
        label: Label,
        *,
        wrap: bool,
        two_way: bool = True,
    ) -> None:
        self.shape = shape
        self.size = prod(shape)
        self.coordinates = places(shape)
        self.wrap, self.two_way = wrap, two_way
        self.copies = len(ports) // self.size
        self._label = label
        self.strides = [prod(shape[d + 1 :]) for d in range(len(shape))]
        self._place = self.coordinates @ np.array(self.strides)
        self._node = np.empty(self.size, dtype=np.int64)
        self._node[self._place] = np.arange(self.size)
        self._exist = np.tile(self._exists().ravel(), self.copies)
        self._slots = np.flatnonzero(self._exist)
        self._link = np.cumsum(self._exist) - 1
        source, target = self.ends
        self.bandwidth = np.minimum(ports[source], ports[target])
        self.latency_s = np.full(len(self._slots), latency_s)
        self._hop_s = latency_s

    @classmethod
    def of(cls, topology: Topology, nodes: Nodes) -> Grid:
        """The ring, torus or mesh of some nodes; every hop takes the longest of their latencies."""
        return cls(
            topology.shape_of(nodes.group.size),
            nodes.ports,
            float(nodes.latency_s.max()),
            partial(named, nodes.name),
            wrap=topology.kind != "mesh",
            two_way=topology.two_way,
        )

    def _exists(self) -> np.ndarray[tuple[int, int, int], np.dtype[np.bool_]]:
        """Which of the two ways of each dimension leads anywhere from each place."""
        exists = np.zeros((self.size, len(self.shape), 2), dtype=np.bool_)
        at = self._coordinates_of_places
        for d, side in enumerate(self.shape):
            round_ = self.wrap and side > 2
            exists[:, d, _PLUS] = (at[:, d] + 1 < side) | round_
            if self.two_way or side == 2:
                exists[:, d, _MINUS] = (at[:, d] > 0) | round_
        return exists

    @cached_property
    def _coordinates_of_places(self) -> Ints:
        return np.stack(np.unravel_index(np.arange(self.size), self.shape), axis=1)

    @cached_property
    def ends(self) -> tuple[Ints, Ints]:
        """Source and target node of every link."""
        rest, way = np.divmod(self._slots, 2)
        rest, d = np.divmod(rest, len(self.shape))
        copy, place = np.divmod(rest, self.size)
        side, stride = np.array(self.shape)[d], np.array(self.strides)[d]
        here = self._coordinates_of_places[place, d]
        there = (here + np.where(way == _PLUS, 1, -1)) % side
        neighbour = place + (there - here) * stride
        return copy * self.size + self._node[place], copy * self.size + self._node[neighbour]

    def steps(self, here: Ints, there: Ints, d: int) -> Ints:
        """How many links to take in dimension ``d``, negative for the way down."""
        side = self.shape[d]
        ahead = there - here
        if not self.wrap or side == 2:
            return ahead
        ahead %= side
        if not self.two_way:
            return ahead
        down = (2 * ahead > side) | ((2 * ahead == side) & (here % 2 == 1))
        return np.where(down, ahead - side, ahead)

    def loads(self, sources: Ints, targets: Ints, flows: Floats) -> Floats:  # noqa: D102
        copies, nodes = np.divmod(sources, self.size)
        place = copies * self.size + self._place[nodes]
        used = int(copies.max(initial=0)) + 1  # what is behind them carries nothing
        dense = np.zeros((used * self.size, len(self.shape), 2))
        goal = self.coordinates[targets % self.size]
        for d, (side, stride) in enumerate(zip(self.shape, self.strides, strict=True)):
            high, rest = np.divmod(place, stride * side)
            here, low = np.divmod(rest, stride)
            line, lines = high * stride + low, used * self.size // side
            steps = self.steps(here, goal[:, d], d)
            along = self.along(d, lines, line, here, steps, flows)
            dense[:, d] += along.reshape(-1, stride, side, 2).transpose(0, 2, 1, 3).reshape(-1, 2)
            place = place + (goal[:, d] - here) * stride
        found = np.zeros(len(self._slots))
        links = len(found) // self.copies * used
        found[:links] = dense.ravel()[self._slots[:links]]
        return found

    def along(
        self, d: int, lines: int, line: Ints, here: Ints, steps: Ints, flows: Floats
    ) -> Floats:
        """What flows load that each go some ``steps`` from ``here`` on a ``line`` of dimension d.

        Of so many ``lines``, per place and way (up, down). A flow holds a run
        of neighbouring links: one more where the run begins, one less where it
        is over, and sums along the line in between. A line is written twice
        round and one place longer, so that a run that passes the last node need
        not be cut in two, and the rounds are then added. On a ring of 5, a flow
        from 3 that goes up 3 links:

            change   . . . + . | . - . . . | .    begins at 3, is over at 6
            sums     . . . 1 1 | 1 . . . . | .    folded: links of 3, 4 and 0

        Links down belong to the node they leave: a flow from 1 that goes down
        2 holds those of 0 and 1. It may begin before place 0, so its run is
        written in the second round.
        """
        side = self.shape[d]
        length = 2 * side + 1
        found = np.zeros((lines, side, 2))
        for way in (_PLUS, _MINUS):
            goes = steps > 0 if way == _PLUS else steps < 0
            if not goes.any():
                continue
            begin = here[goes] if way == _PLUS else here[goes] + steps[goes] + 1 + side
            runs = line[goes] * length + begin
            change = tally(runs, flows[goes], lines * length)
            ends = runs + np.abs(steps[goes])
            change -= tally(ends, flows[goes], lines * length)
            run = change.reshape(lines, length).cumsum(axis=1)
            found[:, :, way] = run[:, :side] + run[:, side : 2 * side]
        return found

    @cached_property
    def uniform(self) -> bool:
        """Whether all its links are alike."""
        return bool((self.bandwidth == self.bandwidth[:1]).all())

    def latencies(self, sources: Ints, targets: Ints) -> Floats:  # noqa: D102
        return self._hop_s * self.hops(sources, targets)

    def hops(self, sources: Ints, targets: Ints) -> Floats:
        """How many links each message crosses."""
        here, there = self.coordinates[sources % self.size], self.coordinates[targets % self.size]
        hops = np.zeros(len(sources))
        for d in range(len(self.shape)):
            hops += np.abs(self.steps(here[:, d], there[:, d], d))
        return hops

    def names(self) -> list[str]:  # noqa: D102
        source, _ = self.ends
        return [
            f"{self._name(node)} {'+-'[slot % 2]}{AXES[slot // 2 % len(self.shape)]}"
            for node, slot in zip(source.tolist(), self._slots.tolist(), strict=True)
        ]

    def _name(self, node: int) -> str:
        copy, number = divmod(node, self.size)
        at = ",".join(str(c) for c in self.coordinates[number])
        return f"{self._label(copy)}{at}" if len(self.shape) == 1 else f"{self._label(copy)}({at})"

    def injection(self, first: range, second: range) -> float:
        """The links cut between the sides; where none joins them, what their messages share."""
        return cut(self.bandwidth, self.ends, first, second) or self._between(first, second)

    def _between(self, first: range, second: range) -> float:
        """What one side sends to the other by way of other nodes, as its routes share links.

        Each node of both sides sends or receives as much, those opposite each
        other (of 2 and 3: two thirds of what the first node has, then a third).
        """
        a, b = len(first), len(second)
        marks = np.array(sorted({*range(0, a * b, a), *range(0, a * b, b)}))
        flows = np.diff(marks, append=a * b).astype(np.float64)
        loads = self.loads(first.start + marks // b, second.start + marks // a, flows)
        used = loads > 0
        return float((self.bandwidth[used] * (a * b) / loads[used]).min())


def named(name: str, copy: int) -> str:
    """The label of a grid that has no others beside it."""
    del copy
    return name
