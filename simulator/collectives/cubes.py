"""Cores that are copies of each other on the wires: a cube of them, and its links.

The bisection halves alike groups again and again, so cores are numbered like
the corners of a cube: one bit for every halving, an axis. Where all that wires
know of a core depends on some of these bits, cores that differ in the others
share it. Of eight cores on four chips of two boards, numbered 000 to 111:

    chip of core b1 b2 b3: b1 b2, so 010 and 011 share one      axes 110
    board:                 b1, so 000 to 011 share one          axes 100

Turning a bit round everywhere then maps cores to cores, links to links and
routes to routes, except on a grid, whose routes know left from right. What one
message does to the links, its copies do to copies of the links.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware import Wires
from hardware.interconnect.fabric import Level
from hardware.interconnect.full import FullyConnected
from hardware.interconnect.routing import Subnet
from hardware.interconnect.torus import Grid
from simulator.engine.jobs import Ints


def packed(bits: Ints, axes: int) -> Ints:
    """The bits at ``axes`` moved together: of 1011 at axes 1010 that is 11."""
    found = np.zeros_like(bits)
    for low, place, ones in _runs(axes):
        found |= (bits >> low & ones) << place
    return found


def spread(numbers: Ints, axes: int) -> Ints:
    """The other way: the bits of numbers put at ``axes``."""
    found = np.zeros_like(numbers)
    for low, place, ones in _runs(axes):
        found |= (numbers >> place & ones) << low
    return found


def _runs(axes: int) -> Iterator[tuple[int, int, int]]:
    """Neighbouring axes: the lowest, how many are below in other runs, and a 1 for each."""
    place = 0
    while axes:
        low = (axes & -axes).bit_length() - 1
        run = axes >> low
        length = (run ^ (run + 1)).bit_length() - 1
        yield low, place, (1 << length) - 1
        place += length
        axes &= ~(((1 << length) - 1) << low)


def weighed(bits: Ints, weights: Sequence[int]) -> Ints:
    """The sum of the weights of every number's bits."""
    found = np.zeros_like(bits)
    if len(bits) > len(weights):
        for place, weight in enumerate(weights):
            found += (bits >> place & 1) * weight
        return found
    return (bits[:, np.newaxis] >> np.arange(len(weights)) & 1) @ np.array(weights, dtype=np.int64)


def axes_in(axes: int) -> list[int]:
    """The numbers of axes, lowest first."""
    return [axis for axis in range(axes.bit_length()) if axes >> axis & 1]


def corners(axes: int) -> Ints:
    """All combinations of bits at some axes."""
    return spread(np.arange(1 << axes.bit_count()), axes)


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """Links of a subnet's level by the bits of ``axes``, which alone tell them apart.

    Numbers of the array's links; a bus has no way down, and in a chip's HBM it
    is the way up (see ``hardware.interconnect.fabric.Level``).
    """

    axes: int
    up: Ints
    down: Ints | None
    apart: bool


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Nodes of a grid: its copies by the bits of one set of axes, places in it by another.

    ``copies`` and ``nodes`` are their numbers. ``dimensions`` has the axes
    that lead along each; it is empty where one leads along two.
    """

    grid: Grid
    copy_axes: int
    place_axes: int
    copies: Ints
    nodes: Ints
    dimensions: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Nodes with a link to every other, by the bits of ``axes``."""

    fabric: FullyConnected
    axes: int
    nodes: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """One subnet as a cube has it: it carries what is left between cores of one region.

    Cores of one region agree on the bits of ``region``.
    """

    first_link: int
    region: int
    links: tuple[Links | Places | Pairs, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Cube:
    """Cores ``first`` + any sum of ``strides``: bit i of a core's number here is the i-th stride.

    ``chips``, ``boards`` and ``kinds`` are the axes that tell these apart.
    """

    first: int
    strides: tuple[int, ...]
    reaches: tuple[Reach, ...]
    chips: int
    boards: int
    nbytes: int

    @property
    def all_axes(self) -> int:
        """Every axis."""
        return (1 << len(self.strides)) - 1

    def cores(self, bits: Ints) -> Ints:
        """Core numbers of corners."""
        return self.first + weighed(bits, self.strides)


def cube_of(wires: Wires, first: int, strides: Sequence[int]) -> Cube | None:
    """The cube of these cores, if the wires have them so; strides ascend, each beyond all before.

    None where anything on the wires tells one corner from another otherwise
    than by some of its bits, as where cores of unlike devices are among them.
    """
    cores = np.full(1, first)
    for stride in strides:
        cores = np.concatenate([cores, cores + stride])
    if cores[-1] >= wires.cores or len(np.unique(wires.kind[cores])) > 1:
        return None
    chips, boards = _by_bits(wires.chip[cores]), _by_bits(wires.board[cores])
    if chips is None or boards is None:
        return None
    reaches = []
    for subnet in wires.subnets:
        region = subnet.region[cores]
        if (region < 0).all():
            continue
        reach = _reach(subnet, region, subnet.node[cores])
        if reach is None:
            return None
        reaches.append(reach)
    return Cube(first, tuple(strides), tuple(reaches), chips[0], boards[0], 64 * len(cores))


def _by_bits(values: Ints) -> tuple[int, Ints] | None:
    """The axes on which values of corners depend, and the values by their bits.

    None where two combinations of those bits have one value.
    """
    axes = 0
    for axis in range(len(values).bit_length() - 1):
        sides = values.reshape(-1, 2, 1 << axis)
        if (sides[:, 0] != sides[:, 1]).any():
            axes |= 1 << axis
    apart = values[corners(axes)]
    ascend = (np.diff(apart) > 0).all()  # as they do where cores are numbered as they stand
    return (axes, apart) if ascend or len(np.unique(apart)) == len(apart) else None


def _reach(subnet: Subnet, region: Ints, node: Ints) -> Reach | None:
    found = _by_bits(region)
    if (region < 0).any() or found is None:
        return None
    first = subnet.links.start
    if isinstance(subnet.fabric, Grid):
        links: list[Links | Places | Pairs | None] = [_places(subnet.fabric, node, found[0])]
    elif isinstance(subnet.fabric, FullyConnected):
        ends = _by_bits(node)
        links = [None if ends is None else Pairs(subnet.fabric, *ends)]
    else:
        levels = [level for level in subnet.fabric.levels() if (level.up[node] >= 0).any()]
        links = [_level(level, node, first) for level in levels]
    known = tuple(one for one in links if one is not None)
    return Reach(first, found[0], known) if len(known) == len(links) else None


def _level(level: Level, node: Ints, first: int) -> Links | None:
    up = _by_bits(level.up[node])
    if up is None or (up[1] < 0).any():
        return None
    links = first + up[1]
    if level.down is None or level.down is level.up:
        return Links(up[0], links, None if level.down is None else links, level.apart)
    return Links(up[0], links, first + level.down[node][corners(up[0])], level.apart)


def _places(fabric: Grid, node: Ints, region: int) -> Places | None:
    copies, places = _by_bits(node // fabric.size), _by_bits(node % fabric.size)
    if copies is None or places is None or copies[0] != region or copies[0] & places[0]:
        return None
    dimensions = _dimensions(fabric.coordinates[places[1]], places[0])
    if dimensions is None:
        return None
    return Places(fabric, copies[0], places[0], copies[1], places[1], dimensions)


def _dimensions(at: NDArray[np.int64], axes: int) -> tuple[int, ...] | None:
    """The axes along each dimension; none at all where one leads along two.

    None where coordinates are not sums of what each bit adds: boxes and rings
    of copies would not be copies.
    """
    moved = at[1 << np.arange(axes.bit_count())] - at[0]
    sums = at[:1]
    for step in moved:
        sums = np.concatenate([sums, sums + step])
    if (sums != at).any() or (moved < 0).any():
        return None
    found = [0] * at.shape[1]
    for axis, step in zip(axes_in(axes), moved, strict=True):
        if np.count_nonzero(step) != 1:
            return ()
        found[int(np.flatnonzero(step)[0])] |= 1 << axis
    return tuple(found)
