"""Links that all jobs of a step load alike, followed as one.

Every load on a quotient is a function of few of the bits that tell a sort of
links apart; taken together, links that agree in all of these bits carry the
same at any time. A step on 65,536 boards keeps a few thousand links busy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from hardware import Wires
from simulator.collectives.bits import axes_in, corners, packed
from simulator.collectives.cubes import Cube
from simulator.collectives.kept import KEPT
from simulator.collectives.quotient import Quotient
from simulator.collectives.sections import Copies
from simulator.engine.jobs import Floats, Ints, Load
from simulator.engine.links import EveryLink, Links


@dataclass(frozen=True, slots=True, eq=False)
class Together:
    """Several loads at once, each so many times: the numbering of a load that is their sum."""

    parts: tuple[tuple[Load, float], ...]

    @staticmethod
    def of(parts: Iterable[tuple[Load, float]]) -> Load:
        """The sum of loads by weights; which links that makes, ``on`` can tell."""
        nothing = np.zeros(0)
        return Load(nothing.astype(np.int64), nothing, Together(tuple(parts)))

    def everywhere(self, load: Load) -> Load:
        """The sum on the wires' own links."""
        del load
        return _summed([(part.everywhere(), weight) for part, weight in self.parts])


def _summed(parts: Iterable[tuple[Load, float]]) -> Load:
    loads = [(load.links, load.flows * weight) for load, weight in parts]
    links, flows = (np.concatenate(arrays) for arrays in zip(*loads, strict=True))
    found, place = np.unique(links, return_inverse=True)
    total: Floats = np.bincount(place, flows, minlength=len(found)).astype(np.float64)
    return Load(found, total)


def links_of(wires: Wires, loads: Iterable[Load]) -> Links:
    """What a run with these loads has to follow: classes of links if all are on one cube."""
    found = dict.fromkeys(part for load in loads for part in _apart(load))
    on = {load: load.on for load in found if isinstance(load.on, Quotient)}
    cubes = {quotient.cube for quotient in on.values()}
    if len(on) < len(found) or len(cubes) != 1:
        return EveryLink(wires.bandwidth)
    return LinkClasses(wires, cubes.pop(), on)


def _apart(load: Load) -> list[Load]:
    return [part for part, _ in load.on.parts] if isinstance(load.on, Together) else [load]


class LinkClasses(Links):
    """Of each sort of a cube's links one for every combination of the bits that loads ask for.

    The last one stands for all links that are not the cube's, which nobody loads.
    """

    def __init__(self, wires: Wires, cube: Cube, loads: Mapping[Load, Quotient]) -> None:
        super().__init__()
        self._wires = wires
        self._all = Quotient(cube, Copies(free=0, fixed=0, base=0))
        parts = {
            load: KEPT.get("parts", load, partial(_parts, load, on)) for load, on in loads.items()
        }
        self._told = [0] * len(self._all.sections)
        for some in parts.values():
            for part in some:
                self._told[part.number] |= part.told
        sizes = [
            section.each << told.bit_count()
            for section, told in zip(self._all.sections, self._told, strict=True)
        ]
        self._starts = np.cumsum([0, *sizes]).tolist()
        self._found = {load: self._renumbered(some) for load, some in parts.items()}
        self.bandwidth = self._narrowest()

    def of(self, load: Load) -> Load:  # noqa: D102
        if isinstance(load.on, Together):
            return _summed([(self._found[part], weight) for part, weight in load.on.parts])
        return self._found[load]

    def which(self) -> Ints:  # noqa: D102
        found = np.full(len(self._wires.bandwidth), self._starts[-1])
        for number, section in enumerate(self._all.sections):
            bits = corners(section.own)
            real = section.real(bits)
            here = np.broadcast_to(self._here(number, bits), real.shape)
            found[real[real >= 0]] = here[real >= 0]
        return found

    def _here(self, number: int, bits: Ints) -> Ints:
        """The numbers of some of a section's links, by combination and ``each``."""
        each = self._all.sections[number].each
        told = packed(bits, self._told[number])[:, np.newaxis]
        found: Ints = self._starts[number] + told * each + np.arange(each)
        return found

    def _renumbered(self, parts: tuple[_Part, ...]) -> Load:
        links, flows = [np.zeros(0, dtype=np.int64)], [np.zeros(0)]
        for part in parts:
            bits = corners(self._told[part.number])
            bits = bits[bits & part.fixed == part.base]
            values = part.values[packed(bits, part.axes)]
            used = values > 0
            links.append(self._here(part.number, bits)[used])
            flows.append(values[used])
        return Load(np.concatenate(links), np.concatenate(flows))

    def _narrowest(self) -> Floats:
        found = np.full(self._starts[-1] + 1, np.inf)
        for number, section in enumerate(self._all.sections):
            low, high = self._all.range_of(number, self._wires)
            start, end = self._starts[number : number + 2]
            if low == high:
                found[start:end] = low
            else:
                bits = corners(section.own)
                real = section.real(bits)
                speeds = np.where(real < 0, np.inf, self._wires.bandwidth[real])
                np.minimum.at(found, self._here(number, bits), speeds)
        return found


class _Part(NamedTuple):
    """What a load is on section ``number``: values by the bits of ``axes``, and ``each``.

    Where links differ from ``base`` in the bits of ``fixed`` it is nothing.
    """

    number: int
    axes: int
    values: Floats
    fixed: int
    base: int

    @property
    def told(self) -> int:
        """The bits that the load depends on."""
        return self.axes | self.fixed


def _parts(load: Load, on: Quotient) -> tuple[_Part, ...]:
    dense = np.zeros(on.size)
    dense[load.links] = load.flows
    found = []
    for number, section in enumerate(on.sections):
        values = dense[section.start : section.start + section.size].reshape(-1, section.each)
        if values.any():
            axes = section.axes
            for place, axis in reversed(list(enumerate(axes_in(section.axes)))):
                sides = values.reshape(-1, 2, 1 << place, section.each)
                if (sides[:, 0] == sides[:, 1]).all():
                    values = sides[:, 0].reshape(-1, section.each)
                    axes &= ~(1 << axis)
            fixed = on.copies.fixed & section.own
            found.append(_Part(number, axes, values, fixed, on.copies.base & fixed))
    return tuple(found)
