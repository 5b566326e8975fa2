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

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hardware import Wires
from hardware.interconnect.cables import Cables
from hardware.interconnect.fabric import Level
from hardware.interconnect.full import FullyConnected
from hardware.interconnect.routing import Subnet
from hardware.interconnect.torus import Grid
from simulator.collectives.bits import axes_in, corners, packed, spread, weighed
from simulator.collectives.kept import Token, wiring
from simulator.collectives.lattice import sums
from simulator.engine.jobs import Ints, distinct


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

    @property
    def ways(self) -> tuple[str, ...]:
        """The ways of messages that each sort of its links carries."""
        if self.down is None:
            return ("up",)
        return ("up and down",) if self.down is self.up else ("up", "down")

    @property
    def nbytes(self) -> int:
        """Of its arrays."""
        return self.up.nbytes + (0 if self.down is None else self.down.nbytes)


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """The lines of a grid's ``dimension``: of its copies, and of places in the others.

    ``along`` are the axes that lead along it, and ``at`` where these are;
    ``before`` and ``behind`` those that tell lines apart: the dimensions that
    routes take before, and those behind with the copies of the grid. ``nodes``
    are by the bits of all place and copy axes.
    """

    grid: Grid
    dimension: int
    along: int
    before: int
    behind: int
    at: Ints
    nodes: Ints
    copy_axes: int
    place_axes: int
    first_link: int

    @property
    def nbytes(self) -> int:
        """Of its arrays; the nodes are shared with the other lines."""
        return self.at.nbytes + self.nodes.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """Nodes with a link to every other that differs in ``apart``, by the bits of ``axes``."""

    fabric: FullyConnected
    axes: int
    nodes: Ints
    apart: int
    first_link: int

    @property
    def nbytes(self) -> int:
        """Of its nodes."""
        return self.nodes.nbytes


@dataclass(frozen=True, slots=True, eq=False)
class Reach:
    """One subnet as a cube has it: it carries what is left between cores of one region.

    Cores of one region agree on the bits of ``region``.
    """

    region: int
    links: tuple[Links | Line | Pairs, ...]


@dataclass(frozen=True, slots=True)
class Cube:
    """Cores ``first`` + any sum of ``strides``: bit i of a core's number here is the i-th stride.

    ``units`` has the axes that tell apart what ``Wires.units`` does. Arrays that are
    wired alike (``wiring``) have the same cubes.
    """

    wiring: Token
    first: int
    strides: tuple[int, ...]
    reaches: tuple[Reach, ...] = field(compare=False)
    units: tuple[int, ...] = field(compare=False)

    @property
    def nbytes(self) -> int:
        """Of its links' arrays."""
        return sum(links.nbytes for reach in self.reaches for links in reach.links)

    @property
    def all_axes(self) -> int:
        """Every axis."""
        return (1 << len(self.strides)) - 1

    def cores(self, bits: Ints) -> Ints:
        """Core numbers of corners."""
        return self.first + weighed(bits, self.strides)

    def corner(self, core: int) -> int:
        """The corner that a core is."""
        found, behind = 0, core - self.first
        for axis in reversed(range(len(self.strides))):
            if behind >= self.strides[axis]:
                found, behind = found | 1 << axis, behind - self.strides[axis]
        return found


def cube_of(wires: Wires, first: int, strides: Sequence[int]) -> Cube | None:
    """The cube of these cores, if the wires have them so; strides ascend, each beyond all before.

    None where anything on the wires tells one corner from another otherwise
    than by some of its bits, as where cores of unlike devices are among them.
    """
    cores = first + sums(tuple(strides))
    if cores[-1] >= wires.cores or wires.kind[first] != wires.kind[cores[-1]]:
        return None
    units = [_by_bits(unit[cores]) for unit in wires.units]
    if any(unit is None for unit in units):
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
    token = wiring(wires)
    apart = tuple(unit[0] for unit in units if unit is not None)
    return Cube(token, first, tuple(strides), tuple(reaches), apart)


def widest(wires: Wires, first: int, strides: Sequence[int]) -> tuple[int, tuple[int, ...]]:
    """The first core and the strides of the largest cube, by counts, that these cores may be of.

    Cores in a chip, chips on a board and boards of a kind are halved as long
    as their counts are even: of 12 boards of eight cores strides are 1, 2, 4
    inside the board and 3 and 6 boards, and the first core is in one of the
    first three. Unchanged where some strides are not of these.
    """
    kind = int(wires.kind[first])
    device, boards = wires.array.group.kinds[kind]
    start = sum(d.cores * count for d, count in wires.array.group.kinds[:kind])
    unit, rest, origin = 1, first - start, start
    found: list[int] = []
    for count in (device.cores_per_chip, device.chips, boards):
        odd = count // (count & -count)
        rest, place = divmod(rest, count)
        origin += place % odd * unit
        found.extend(unit * odd << i for i in range((count // odd).bit_length() - 1))
        unit *= count
    return (origin, tuple(found)) if set(strides) <= set(found) else (first, tuple(strides))


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
    return (axes, apart) if ascend or len(distinct(apart)) == len(apart) else None


def _reach(subnet: Subnet, region: Ints, node: Ints) -> Reach | None:
    found, ends = _by_bits(region), _by_bits(node)
    if (region < 0).any() or found is None or ends is None or isinstance(subnet.fabric, Cables):
        return None
    first = subnet.links.start
    if isinstance(subnet.fabric, Grid):
        lines = _lines(subnet.fabric, *ends, found[0], first)
        return None if lines is None else Reach(found[0], lines)
    if isinstance(subnet.fabric, FullyConnected):
        return Reach(found[0], (Pairs(subnet.fabric, *ends, ends[0] & ~found[0], first),))
    levels = [level for level in subnet.fabric.levels() if (level.up[ends[1]] >= 0).any()]
    links = tuple(_level(level, *ends, first) for level in levels)
    known = tuple(one for one in links if one is not None)
    return Reach(found[0], known) if len(known) == len(links) else None


def _level(level: Level, axes: int, node: Ints, first: int) -> Links | None:
    """A level's links; ``node`` are the nodes by the bits of ``axes``."""
    up = _by_bits(level.up[node])
    if up is None or (up[1] < 0).any():
        return None
    own = int(spread(np.array([up[0]]), axes)[0])
    links = first + up[1]
    if level.down is None or level.down is level.up:
        return Links(own, links, None if level.down is None else links, level.apart)
    return Links(own, links, first + level.down[node][corners(up[0])], level.apart)


def _lines(grid: Grid, axes: int, node: Ints, region: int, first: int) -> tuple[Line, ...] | None:
    """A grid's lines, dimension by dimension, where each axis leads along one of them.

    None where one does not, or coordinates are not sums of what each bit adds:
    boxes and rings of copies would not be copies.
    """
    copies, places = _by_bits(node // grid.size), _by_bits(node % grid.size)
    if copies is None or places is None or copies[0] & places[0]:
        return None
    copy_axes, place_axes = (
        int(spread(np.array([found[0]]), axes)[0]) for found in (copies, places)
    )
    at = grid.coordinates[places[1]]
    moved = at[1 << np.arange(place_axes.bit_count())] - at[0]
    added = at[:1]
    for step in moved:
        added = np.concatenate([added, added + step])
    single = (np.count_nonzero(moved, axis=1) == 1).all()
    if copy_axes != region or (added != at).any() or (moved < 0).any() or not single:
        return None
    along = [0] * len(grid.shape)
    for axis, step in zip(axes_in(place_axes), moved, strict=True):
        along[int(np.flatnonzero(step)[0])] |= 1 << axis
    return tuple(
        Line(
            grid,
            d,
            along[d],
            sum(along[:d]),
            sum(along[d + 1 :]) | copy_axes,
            at[packed(corners(along[d]), place_axes), d],
            node,
            copy_axes,
            place_axes,
            first,
        )
        for d in range(len(grid.shape))
    )
