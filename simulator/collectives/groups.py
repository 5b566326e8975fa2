"""Groups of cores that run one collective at the same time, and what their messages load.

Where the groups together are a cube of cores, of which each takes some axes
(its members differ in them) and its copies the others, one group is followed
and counted for all (``Mirrored``). Any others are followed one by one
(``Anywhere``). Of eight cores, groups {0, 2} {1, 3} {4, 6} {5, 7} are a cube:
members at axis 010, groups at 101.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from hardware import Wires
from hardware.interconnect.torus import Grid
from simulator.collectives.bits import axes_in, spread, weighed
from simulator.collectives.cubes import Cube, Line, cube_of, widest
from simulator.collectives.kept import KEPT, Token, digest, speeds, wiring
from simulator.collectives.lattice import Lattice, Members, Rows
from simulator.collectives.messages import Carried, Messages, add, carry
from simulator.collectives.quotient import Quotient
from simulator.collectives.ring_order import boxes, in_ring_order, runs
from simulator.collectives.sections import MESSAGES_AT_ONCE, Copies
from simulator.engine.jobs import Ints


class Box(NamedTuple):
    """Groups whose members come in the order of their places in a box with these sides."""

    groups: Groups
    sides: tuple[int, ...]


class Groups(ABC):
    """Equally large groups of cores that share none.

    ``size`` is the number of members of each, ``count`` that of groups.
    ``key`` says which they are and how wires lead between them, not how fast. ``rows`` are
    the cores of some that stand for all: of groups that are ``alike``, of one.
    """

    wires: Wires
    size: int
    count: int
    key: Hashable
    rows: Ints
    alike = False

    @cached_property
    def speeds(self) -> Token:
        """How fast the wires are, for keys."""
        return speeds(self.wires)

    @abstractmethod
    def carry(self, messages: Messages) -> Carried:
        """What messages of every group load when all send at once."""

    @property
    @abstractmethod
    def ring(self) -> Groups:
        """The same with members so that neighbours are near."""

    @property
    @abstractmethod
    def chain(self) -> Groups:
        """The same ring, cut open before the first member."""

    @property
    @abstractmethod
    def box(self) -> Box | None:
        """The same as boxes of a ring, torus or mesh; None where they are not."""

    @abstractmethod
    def apart(self, level: int, *, first_only: bool) -> tuple[Groups, Groups] | None:
        """The members of each of ``Wires.units[level]``, and those at one place of all of them.

        With ``first_only`` the latter are the first of each node. None where
        nodes do not have equally many members, one behind the other.
        """


class Anywhere(Groups):
    """Groups of any cores, a row each."""

    def __init__(self, wires: Wires, rows: Ints) -> None:
        self.wires = wires
        self.rows = rows
        self.count, self.size = rows.shape

    @cached_property
    def key(self) -> Hashable:  # type: ignore[override]  # noqa: D102
        return wiring(self.wires), digest(self.rows)

    def carry(self, messages: Messages) -> Carried:  # noqa: D102
        if messages.everyone:
            return self._everyone()
        sources, targets = messages.of(self.size)
        return carry(self.wires, self.rows[:, sources], self.rows[:, targets])

    def _everyone(self) -> Carried:
        """By distances in the row, not all at once."""
        n, parts = self.size, []
        at_once = max(MESSAGES_AT_ONCE // self.rows.size, 1)
        for first in range(1, n, at_once):
            distances = np.arange(first, min(first + at_once, n))[:, np.newaxis]
            others = self.rows[:, (np.arange(n) + distances) % n]
            sources = np.broadcast_to(self.rows[:, np.newaxis], others.shape)
            parts.append((carry(self.wires, sources, others), 1.0))
        return add(parts)

    @property
    def ring(self) -> Anywhere:  # noqa: D102
        if not _shares_grid(self.wires, self.rows[0]):
            return self
        key, rows = self.key, self.rows
        rows = KEPT.get("order in a ring", key, lambda: in_ring_order(self.wires, rows))
        return Anywhere(self.wires, rows)

    @property
    def chain(self) -> Anywhere:  # noqa: D102
        rows = self.ring.rows
        start = np.argmax(rows == self.rows[:, :1], axis=1)[:, np.newaxis]
        turned = np.take_along_axis(rows, (start + np.arange(self.size)) % self.size, 1)
        return Anywhere(self.wires, turned)

    @property
    def box(self) -> Box | None:  # noqa: D102
        if not _shares_grid(self.wires, self.rows[0]):
            return None
        members = KEPT.get("order in a box", self.key, lambda: boxes(self.wires, self.rows))
        if members is None:
            return None
        return Box(Anywhere(self.wires, members.reshape(self.rows.shape)), members.shape[1:])

    def apart(self, level: int, *, first_only: bool) -> tuple[Groups, Groups] | None:  # noqa: D102
        nodes = runs(self.wires.units[level], self.rows)
        if nodes is None:
            return None
        inside = np.ascontiguousarray(nodes.reshape(-1, nodes.shape[2]))
        nodes = nodes[:, :, :1] if first_only else nodes
        across = np.ascontiguousarray(nodes.transpose(0, 2, 1).reshape(-1, nodes.shape[1]))
        return groups_of(self.wires, Rows(inside)), groups_of(self.wires, Rows(across))


def _shares_grid(wires: Wires, members: Ints) -> bool:
    """Whether a grid joins all of them: without one there are no coordinates to make."""
    return any(
        isinstance(subnet.fabric, Grid)
        and bool((subnet.region[members] == max(subnet.region[members[0]], 0)).all())
        for subnet in wires.subnets
    )


@dataclass(eq=False)
class Mirrored(Groups):
    """Groups that are a cube together: bit i of a member's number is axis ``members[i]``.

    There is a group for every combination of the bits of ``free``; all agree
    with ``base`` in the others. ``order`` has members' numbers, in the order
    in which messages count them. Where copies are left out that need not be
    followed, ``count`` still has them.
    """

    wires: Wires
    cube: Cube
    members: tuple[int, ...]
    free: int
    base: int
    count: int
    order: Ints | None = None
    alike = True

    def __post_init__(self) -> None:
        self.size = 1 << len(self.members)
        self.axes = sum(1 << axis for axis in self.members)
        self.key = self.cube, self.members, self.free, self.base  # one cube on arrays so wired

    def _quotient(self, free: int) -> Quotient:
        fixed = self.cube.all_axes & ~(self.free | self.axes)
        copies = Copies(free, fixed, self.base)
        return KEPT.get("quotient", (self.cube, copies), lambda: Quotient(self.cube, copies))

    def _bits(self, numbers: Ints) -> Ints:
        """The corners of the cube that members of the first group are."""
        if self.members == tuple(axes_in(self.axes)):
            return self.base | spread(numbers, self.axes)
        return self.base | weighed(numbers, [1 << axis for axis in self.members])

    @cached_property
    def rows(self) -> Ints:  # type: ignore[override]  # noqa: D102
        return self.cube.cores(self._bits(np.arange(self.size)))[np.newaxis]

    def carry(self, messages: Messages) -> Carried:  # noqa: D102
        if messages.everyone or messages.mirrored:
            return self._everywhere(messages)
        sources, targets = messages.sources, messages.targets
        if self.order is not None:
            sources, targets = self.order[sources], self.order[targets]
        on = self._quotient(self.free)
        return Carried(*on.carry(self._bits(sources), self._bits(targets)), on)

    def _everywhere(self, messages: Messages) -> Carried:
        """What all members do alike: members are as free as groups are.

        Who exchanges with whom is then all that matters, not which members a group has.
        """
        on = self._quotient(self.free | self.axes)
        if messages.everyone:
            key = "everyone", (on, self.axes)
            return KEPT.get(*key, lambda: Carried(*on.everyone(self.axes), on))
        sources, targets = self._bits(messages.sources), self._bits(messages.targets)
        exchanged = on, *sources.tolist(), *targets.tolist()
        return KEPT.get("exchange", exchanged, lambda: Carried(*on.carry(sources, targets), on))

    def _numbers(self, cores: Ints) -> Ints:
        """The numbers of members of the first group that are these cores."""
        by_number = np.argsort(self.rows[0])
        return by_number[np.searchsorted(self.rows[0, by_number], cores)]

    def _on_grid(self) -> bool:
        return any(
            isinstance(links, Line) and not reach.region & self.axes
            for reach in self.cube.reaches
            for links in reach.links
        )

    @property
    def ring(self) -> Mirrored:  # noqa: D102
        if not self._on_grid():
            return self
        return replace(self, order=KEPT.get("order in a ring", self.key, self._round))

    def _round(self) -> Ints:
        return self._numbers(in_ring_order(self.wires, self.rows)[0])

    @property
    def chain(self) -> Mirrored:  # noqa: D102
        order = self.ring.order
        if order is None:
            return self
        start = int(np.argmax(order == 0))
        return replace(self, order=np.roll(order, -start))

    @property
    def box(self) -> Box | None:  # noqa: D102
        if not self._on_grid():
            return None
        order = KEPT.get("order in a box", self.key, self._boxed)
        return None if order is None else Box(replace(self, order=order.ravel()), order.shape)

    def _boxed(self) -> Ints | None:
        members = boxes(self.wires, self.rows)
        return None if members is None else self._numbers(members[0])

    def apart(self, level: int, *, first_only: bool) -> tuple[Groups, Groups] | None:  # noqa: D102
        of = self.cube.units[level]
        inside = [axis for axis in self.members if not of >> axis & 1]
        across = [axis for axis in self.members if of >> axis & 1]
        if tuple(inside) != self.members[: len(inside)]:
            return None
        others = self.free | sum(1 << axis for axis in across)
        beside = self.free if first_only else self.free | sum(1 << axis for axis in inside)
        sets, many = self.count << len(across), 0 if first_only else len(inside)
        within = replace(self, members=tuple(inside), free=others, count=sets, order=None)
        return within, replace(within, members=tuple(across), free=beside, count=self.count << many)


def groups_of(wires: Wires, members: Members) -> Groups:
    """Groups of cores (of which no one is in two)."""
    lattice = members if isinstance(members, Lattice) else Lattice.of(members.cores)
    mirrored = None if lattice is None else _mirrored(wires, lattice)
    return mirrored or Anywhere(wires, members.rows())


def _mirrored(wires: Wires, lattice: Lattice) -> Mirrored | None:
    """The groups in a cube, if their cores are in one and the wires have it so.

    In the largest that there may be, so that few cubes serve all groups.
    """
    strides = sorted(lattice.members + lattice.beside)
    for first, all_strides in (widest(wires, lattice.first, strides), (lattice.first, strides)):
        key = wiring(wires), first, tuple(all_strides)
        cube = KEPT.get("cube", key, partial(cube_of, wires, first, all_strides))
        if cube is not None:
            axis = {stride: i for i, stride in enumerate(cube.strides)}
            members = tuple(axis[stride] for stride in lattice.members)
            free = sum(1 << axis[stride] for stride in lattice.beside)
            base = cube.corner(lattice.first)
            if not base & (free | sum(1 << i for i in members)):
                return Mirrored(wires, cube, members, free, base, lattice.count)
    return None
