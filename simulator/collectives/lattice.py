"""Equally large groups of cores that are alike all over: said by strides, not one by one.

The bisection halves alike groups again and again, so that a group's second,
third and fifth member are 1, 2 and 4 such strides behind the first, and other
groups stand so many cores behind it. Groups 0 2 | 1 3 | 4 6 | 5 7 of eight
cores: members are at stride 2 from each other, groups at strides 1 and 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from simulator.collectives.cache import digest
from simulator.engine.jobs import Ints


def sums(strides: tuple[int, ...]) -> Ints:
    """All sums of some of them, by bits: bit i of a sum's place says whether stride i is in it."""
    found = np.zeros(1, dtype=np.int64)
    for stride in strides:
        found = np.concatenate([found, found + stride])
    return found


@dataclass(frozen=True, slots=True)
class Lattice:
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
    def key(self) -> Lattice:
        """Which they are, for keys."""
        return self

    def at(self, copies: Lattice) -> Lattice:
        """The same in every place of ``copies``, whose groups are single cores."""
        return Lattice(self.first + copies.first, self.members, self.beside + copies.beside)

    def rows(self) -> Ints:
        """Core numbers, a group a row."""
        found: Ints = self.first + np.add.outer(sums(self.beside), sums(self.members))
        return found

    @staticmethod
    def of(rows: Ints) -> Lattice | None:
        """What these rows are, if that is a lattice: its first row and column tell."""
        count, size = rows.shape
        if count & (count - 1) or size & (size - 1):
            return None
        first = int(rows[0, 0])
        found = Lattice(
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

    def at(self, copies: Lattice) -> Rows:
        """The same in every place of ``copies``, whose groups are single cores."""
        if copies == Lattice(0):
            return self
        firsts = copies.rows().ravel()
        return Rows(np.add.outer(firsts, self.cores).reshape(-1, self.size))

    def rows(self) -> Ints:
        """Core numbers, a group a row."""
        return self.cores


Members = Lattice | Rows
"""Equally large groups of cores."""
