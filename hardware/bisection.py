"""What the halves of a group can send to each other, on the papers' links or on wires.

How a group is halved is its own matter (``Group.halves``); with which
bandwidth its halves exchange depends on the array that they are part of.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from hardware.array import Array, Group, Stack
from hardware.device import Device
from hardware.topology import Topology

if TYPE_CHECKING:
    from hardware.interconnect.routing import Wires


@dataclass(frozen=True, slots=True)
class Half:
    """One side of a split, and the bandwidth of its link to the other side (B/s)."""

    group: Group
    link_bytes_per_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """A group where it stands in the array: its ``halves``, and their sections ``below``.

    Sections that are alike, with all splits below, are one object. That of a
    single leaf has neither.
    """

    group: Group
    halves: tuple[Half, ...] = ()
    below: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Bisection:
    """An array as it is bisected: every group's halves, and the bandwidth between them.

    On ``wires`` a half's link is all that it can send to the other half at
    once. Without any, links are the papers': a half's link is one
    accelerator's, that of its slowest kind, or on a bus (HyPar) its share of
    the one medium: each of m alike splits of a level gets 1/m of the
    bandwidth, and both directions share that.
    """

    array: Array
    wires: Wires | None = None
    _alike: dict[Hashable, Section] = field(default_factory=dict)

    def section(self, group: Group, first: int = 0) -> Section:
        """A group whose first leaf is number ``first`` of the array, with all that is below."""
        if group.size == 1:
            return self._alike.setdefault(group, Section(group))
        sides = group.halves()
        where = group, self._place(sides, first)
        if where not in self._alike:
            halves = self.halves(group, first)
            one = self.section(sides[0], first)
            behind = first + sides[0].size
            below = (one, one if self._moved(sides, first) else self.section(sides[1], behind))
            made = Section(group, halves, below)
            self._alike[where] = self._alike.setdefault((group, halves, below), made)
        return self._alike[where]

    def _place(self, sides: tuple[Group, Group], first: int) -> tuple[int, int]:
        """What tells a split from others of its group."""
        return (-1, 0) if self.wires is None else self.wires.place(*_ranges(sides, first))

    def _moved(self, sides: tuple[Group, Group], first: int) -> bool:
        """Whether the second half is the first one again, only elsewhere."""
        if sides[0] != sides[1] or self.wires is None:
            return False
        return self.wires.moved(*_ranges(sides, first))

    def halves(self, group: Group, start: int = 0) -> tuple[Half, Half]:
        """The halves of a group whose first leaf is number ``start`` of the array.

        Raises ValueError for a single accelerator.
        """
        first, second = group.halves()
        if self.wires is not None:
            one, other = _ranges((first, second), start)
            return (
                Half(first, self.wires.injection_bytes_per_s(one, other)),
                Half(second, self.wires.injection_bytes_per_s(other, one)),
            )
        streams = self._streams(group)
        return (
            Half(first, _slowest_port(first) / streams),
            Half(second, _slowest_port(second) / streams),
        )

    def _streams(self, group: Group) -> int:
        """How many streams share the link of a split of ``group``: on a bus all of its level."""
        whole = self.array.whole or self.array
        return 2 * whole.group.size // group.size if whole.topology.shared else 1


def _ranges(sides: tuple[Group, Group], start: int) -> tuple[range, range]:
    """The cores of two halves, the first of them number ``start``."""
    middle = start + sides[0].cores
    return range(start, middle), range(middle, middle + sides[1].cores)


def _slowest_port(group: Group) -> float:
    return min(device.network_bytes_per_s for device, _ in group.kinds)


@lru_cache(maxsize=3)
def bisection_of(array: Array) -> Bisection:
    """The array's bisection: on its wires where that ends in cores, on the papers' links else.

    Those of the last few arrays are kept, with the sections that were asked for.
    Raises SpecError where its topology does not fit.
    """
    return Bisection(array, wires_of(array) if array.group.leaf == "core" else None)


def by_core(array: Array) -> Array:
    """The array as one group of cores, which is bisected down to single ones, on its wires."""
    return replace(array, group=replace(array.group, leaf="core"))


def wires_of(array: Array) -> Wires:
    """The array's wires; raises SpecError where its topology does not fit.

    Those of the last few arrays are kept, so that planning, lowering and
    whoever asks next share them, and a sweep does not keep every array's.
    """
    array = array.whole or array
    steps_s = array.stack.ring_steps_s if array.stack else ()
    return _made(array.name, array.group.kinds, array.topology, steps_s)


@lru_cache(maxsize=3)
def _made(
    name: str, kinds: tuple[tuple[Device, int], ...], topology: Topology, steps_s: tuple[float, ...]
) -> Wires:
    from hardware.interconnect.routing import Wires

    stack = Stack(ring_steps_s=steps_s) if steps_s else None
    return Wires(Array(name, "", Group(kinds), topology=topology, stack=stack))
