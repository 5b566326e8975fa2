"""Equally large groups of cores that are alike all over: said by strides, not one by one.

The bisection halves alike groups again and again, so that a group's second,
third and fifth member are 1, 2 and 4 such strides behind the first, and other
groups stand so many cores behind it. Groups 0 2 | 1 3 | 4 6 | 5 7 of eight
cores: members are at stride 2 from each other, groups at strides 1 and 4.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hardware import Wires
from hardware.interconnect.torus import Grid
from simulator.collectives.cache import digest
from simulator.collectives.messages import Carried, add, farthest
from simulator.collectives.ring_order import boxes, in_ring_order, runs
from simulator.collectives.symmetry import Symmetry, symmetry_of
from simulator.engine.jobs import Floats, Ints, Load

MESSAGES_AT_ONCE = 1 << 16


def sums(strides: tuple[int, ...]) -> Ints:
    """All sums of some of them, by bits: bit i of a sum's place says whether stride i is in it."""
    found = np.zeros(1, dtype=np.int64)
    for stride in strides:
        found = np.concatenate([found, found + stride])
    return found


@dataclass(frozen=True, slots=True)
class StridedGroups:
    """Groups whose members are ``first`` + sums of ``members``, each again at sums of ``beside``.

    Bit i of a member's number in its group is the i-th stride of ``members``.
    """

    first: int
    members: tuple[int, ...] = ()
    beside: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Members of a group."""
        return 1 << len(self.members)

    @property
    def count(self) -> int:
        """Groups."""
        return 1 << len(self.beside)

    @property
    def key(self) -> StridedGroups:
        """Which they are, for keys."""
        return self

    def at(self, copies: StridedGroups) -> StridedGroups:
        """The same in every place of ``copies``, whose groups are single cores."""
        return StridedGroups(self.first + copies.first, self.members, self.beside + copies.beside)

    def rows(self) -> Ints:
        """Core numbers, a group a row."""
        found: Ints = self.first + np.add.outer(sums(self.beside), sums(self.members))
        return found

    @staticmethod
    def of(rows: Ints) -> StridedGroups | None:
        """These rows, if their numbers are such sums: the first row and column tell."""
        count, size = rows.shape
        if count & (count - 1) or size & (size - 1):
            return None
        first = int(rows[0, 0])
        found = StridedGroups(
            first,
            tuple(int(rows[0, 1 << i]) - first for i in range(size.bit_length() - 1)),
            tuple(int(rows[1 << i, 0]) - first for i in range(count.bit_length() - 1)),
        )
        strides = sorted(found.members + found.beside)
        if any(stride <= sum(strides[:i]) for i, stride in enumerate(strides)):
            return None
        return found if (rows == found.rows()).all() else None


@dataclass(frozen=True, eq=False)
class Rows:
    """Equally large groups of any cores, a group a row."""

    cores: Ints

    @property
    def size(self) -> int:
        """Members of a group."""
        return int(self.cores.shape[1])

    @property
    def count(self) -> int:
        """Groups."""
        return int(self.cores.shape[0])

    @cached_property
    def key(self) -> bytes:
        """Which they are, for keys."""
        return digest(self.cores)

    def at(self, copies: StridedGroups) -> Rows:
        """The same in every place of ``copies``, whose groups are single cores."""
        if copies == StridedGroups(0):
            return self
        firsts = copies.rows().ravel()
        return Rows(np.add.outer(firsts, self.cores).reshape(-1, self.size))

    def rows(self) -> Ints:
        """Core numbers, a group a row."""
        return self.cores


Members = StridedGroups | Rows
"""Equally large groups of cores."""


class Box(NamedTuple):
    """Groups whose members come in the order of their places in a box with these sides."""

    groups: Groups
    sides: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Groups:
    """Equally large groups of cores that share none: ``rows``, by group and member.

    Where a ``symmetry`` of the array is known, every row stands for its copies under the
    flips ``copied``, and loads are on classes of links. ``count`` is the number of all
    groups; ``strided`` says whether they are strided groups.
    """

    wires: Wires
    rows: Ints
    count: int
    strided: bool
    symmetry: Symmetry | None = None
    copied: int = 0

    @property
    def size(self) -> int:
        """Members of each."""
        return int(self.rows.shape[1])

    @cached_property
    def key(self) -> Hashable:
        """Which they are and how wires lead between them, not how fast."""
        return self.wires.topology_key, digest(self.rows), self.copied

    def carry(self, sources: Ints, targets: Ints) -> Carried:
        """Messages between members with these numbers, in every group."""
        return self._carry(self.rows[:, sources], self.rows[:, targets], self.copied)

    def exchange(self, distance: int) -> Carried:
        """Every member swaps with the one whose number differs in that bit."""
        members, copied = self._representatives
        return self._carry(self.rows[:, members], self.rows[:, members ^ distance], copied)

    def everyone(self) -> Carried:
        """Every member sends to all others; by distances in the row, not all at once."""
        members, copied = self._representatives
        parts, at_once = [], max(MESSAGES_AT_ONCE // (len(self.rows) * len(members)), 1)
        for first in range(1, self.size, at_once):
            distances = np.arange(first, min(first + at_once, self.size))[:, np.newaxis]
            targets = self.rows[:, (members + distances) % self.size]
            sources = np.broadcast_to(self.rows[:, np.newaxis, members], targets.shape)
            parts.append(self._carry(sources, targets, copied))
        return add([(carried, 1.0) for carried in parts])

    def loaded(self, flows: Floats) -> Load:
        """The load of the groups' messages that were counted by somebody else, on all links."""
        if self.symmetry is None:
            return Load.of(flows)
        links = np.flatnonzero(flows)
        return self.symmetry.folded(links, flows[links], self.copied)

    def _carry(self, sources: Ints, targets: Ints, copied: int) -> Carried:
        a, b = sources.ravel(), targets.ravel()
        if self.symmetry is not None:
            load = self.symmetry.load(self.wires, a, b, copied)
        else:
            load = Load.of(self.wires.loads(a, b))
        return Carried(load, farthest(self.wires, a, b))

    @cached_property
    def _representatives(self) -> tuple[Ints, int]:
        """Members of whose messages those of all others are copies, where all do the same."""
        if self.symmetry is None:
            return np.arange(self.size), 0
        members, flips = self.symmetry.halved(self.rows)
        return members, self.copied | flips

    @property
    def ring(self) -> Groups:
        """The same with members so that neighbours are near."""
        if not _shares_grid(self.wires, self.rows[0]):
            return self
        return replace(self, rows=in_ring_order(self.wires, self.rows))

    @property
    def chain(self) -> Groups:
        """The same ring, cut open before the first member."""
        rows = self.ring.rows
        start = np.argmax(rows == self.rows[:, :1], axis=1)[:, np.newaxis]
        turned = np.take_along_axis(rows, (start + np.arange(self.size)) % self.size, 1)
        return replace(self, rows=turned)

    @cached_property
    def box(self) -> Box | None:
        """The same as boxes of a ring, torus or mesh; None where they are not."""
        if not _shares_grid(self.wires, self.rows[0]):
            return None
        members = boxes(self.wires, self.rows)
        if members is None:
            return None
        return Box(replace(self, rows=members.reshape(self.rows.shape)), members.shape[1:])

    def split_by_unit(self, level: int, *, first_only: bool) -> tuple[Groups, Groups] | None:
        """The members of each of ``Wires.units[level]``, and those at one place of all of them.

        With ``first_only`` the latter are the first of each node. None where
        nodes do not have equally many members, one behind the other.
        """
        nodes = runs(self.wires.units[level], self.rows)
        if nodes is None:
            return None
        inside = np.ascontiguousarray(nodes.reshape(-1, nodes.shape[2]))
        within = self._of(inside, self.count * nodes.shape[1])
        nodes = nodes[:, :, :1] if first_only else nodes
        across = np.ascontiguousarray(nodes.transpose(0, 2, 1).reshape(-1, nodes.shape[1]))
        return within, self._of(across, self.count * nodes.shape[2])

    def _of(self, rows: Ints, count: int) -> Groups:
        """Other groups, of which each of these rows has copies as its cores have here."""
        strided = self.strided or StridedGroups.of(rows) is not None
        if self.symmetry is None:
            return Groups(self.wires, rows, count, strided)
        few, flips = self.symmetry.halved(rows.T)
        rows = np.ascontiguousarray(rows[few])
        return Groups(self.wires, rows, count, strided, self.symmetry, self.copied | flips)


def groups_of(wires: Wires, members: Members) -> Groups:
    """Groups of cores (of which no one is in two)."""
    first = members.first if isinstance(members, StridedGroups) else int(members.cores[0, 0])
    symmetry, copied, rest = symmetry_of(wires, first), 0, members
    if symmetry is not None and isinstance(members, StridedGroups):
        flipped = {s: symmetry.flips[s] for s in members.beside if s in symmetry.flips}
        beside = tuple(stride for stride in members.beside if stride not in flipped)
        rest = StridedGroups(first, members.members, beside)
        if all(symmetry.unset(stride, rest.rows()) for stride in flipped):
            copied = sum(flipped.values())
        else:
            rest = members
    rows = rest.rows()
    if symmetry is not None and (wires.kind[rows] != wires.kind[first]).any():
        symmetry, copied, rows = None, 0, members.rows()
    found = Groups(wires, rows, members.count, isinstance(members, StridedGroups), symmetry, copied)
    return found._of(rows, members.count)


def _shares_grid(wires: Wires, members: Ints) -> bool:
    """Whether a grid joins all of them: without one there are no coordinates to make."""
    return any(
        isinstance(subnet.fabric, Grid)
        and bool((subnet.region[members] == max(subnet.region[members[0]], 0)).all())
        for subnet in wires.subnets
    )
