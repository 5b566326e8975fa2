"""From how a tensor is held to how it is wanted: which collectives, of whom, with how many bytes.

Inside a block all devices do the same. At each level the two placements say what is needed; a
collective is over all levels that need the same. Of 8 bytes on four devices (two levels):

    held -> wanted            collective       each device ends with
    partial -> replicate      all-reduce       all 8 bytes summed, of 8 of its own
    partial -> shard          reduce-scatter   2 bytes summed, of 8 of its own
    shard -> replicate        all-gather       all 8 bytes, of 2 of its own
    shard(0) -> shard(1)      all-to-all       2 other bytes, of which it had a quarter
    replicate -> shard        nothing          2 of the 8 bytes that it has

Where halves differ (two kinds of chip, uneven shares) no collective fits both; three of a kind
with a third each are one group all the same. Each half is a mesh of its own, and a ``swap`` joins
them: the devices of each receive together what they lack. Rows that two halves hold half and half,
and both want whole, are swapped (4 bytes each way), each half's devices receiving parts, and
gathered in each half. Partial sums of 8 bytes on one and three devices may be one collective all
the same; or they are reduce-scattered in each half, swapped (8 bytes each way), and gathered, as
where one half has them in parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.collectives.groups import Members, Rows
from simulator.sharding.blocks import Block, Shards
from simulator.sharding.mesh import Mesh
from simulator.sharding.spec import PARTIAL, POSITIONS, REPLICATE, Change, Layout, Placement, Types

ROUNDING = 1e-9
"""What of a tensor is no part of it: shares that should be equal differ by their last digits."""

Bytes = NDArray[np.float64]
"""Bytes of each device of a group; one number where they are the same for all."""


class Request(NamedTuple):
    """One collective over a mesh's groups, or a swap between its halves, in all its copies.

    ``groups`` holds device numbers relative to the mesh's first one, and ``bytes`` the tensor's
    size per device as ``simulator.collectives.choice`` wants it. ``padded`` are the same groups
    with devices that hold nothing, who may stand between the others. Of a swap, ``groups`` are
    the two halves' devices and ``bytes`` what each of them receives.
    """

    mesh: Mesh
    collective: str
    groups: tuple[Members, ...]
    bytes: tuple[Bytes, ...]
    padded: Members | None = None


def swap(mesh: Mesh, nodes: Sequence[int], first: Bytes, second: Bytes) -> Request:
    """What the devices of each half that have something of ``nodes`` receive from the other's."""
    one, other = (np.flatnonzero(half.mask(nodes)) for half in mesh.halves)
    halves = Rows(one[np.newaxis]), Rows((other + mesh.halves[0].cores)[np.newaxis])
    return Request(mesh, "swap", halves, (first, second))


def redistribute(
    change: Change,
    mesh: Mesh,
    size: float,
    alone_ps: Callable[[Request], int] | None = None,
) -> list[Request]:
    """Bring every device of a mesh what it wants of a tensor of ``size`` bytes that is complete.

    Requests are in the order in which the devices of their meshes meet them. Unlike devices
    exchange as one where that is quicker by ``alone_ps``: how long a request takes alone.
    """
    held, wanted = change
    if mesh.even and all(held.on(types) == wanted.on(types) for types in mesh.all_types):
        return []
    found = _Redistribution(*change, size, alone_ps)
    found.move(mesh, size)
    return found.requests


@dataclass(frozen=True, slots=True)
class _Redistribution:
    held: Layout
    wanted: Layout
    whole: float
    alone_ps: Callable[[Request], int] | None = None
    requests: list[Request] = field(default_factory=list)

    @property
    def nodes(self) -> tuple[int, int]:
        """The two nodes whose splits matter."""
        return self.held.node, self.wanted.node

    def move(self, mesh: Mesh, old: float, new: float = 0.0) -> None:
        """Bring every device of ``mesh`` what it wants of a tensor.

        It wants ``old`` bytes that the mesh holds as they were, and ``new`` that came from
        outside and are spread over its devices.
        """
        old, new = self._real(old), self._real(new)
        if not mesh.busy(self.nodes) or not (old or new):
            return
        if not mesh.halves:
            self._in_block(mesh, old, new)
            return
        if not new and (together := self._together(mesh)) is not None:
            size = np.array(old * self._part(mesh, together.shards))
            best = [Request(mesh, together.collective, (Rows(together.rows),), (size,))]
            if _unlike(mesh):
                apart = replace(self, requests=[])
                apart._in_halves(mesh, old, new)
                sooner = self.alone_ps and partial(_took_ps, self.alone_ps)
                best = min(best, apart.requests, key=sooner) if sooner else apart.requests
            self.requests.extend(best)
            return
        self._in_halves(mesh, old, new)

    def _in_halves(self, mesh: Mesh, old: float, new: float) -> None:
        """What the halves swap, and then the rest inside each of them."""
        first, second = mesh.halves
        moved = [self._of_half(mesh, i, old, new) for i in (0, 1)]
        if moved[0][1] or moved[1][1]:
            amounts = (self._spread(first, moved[0][1]), self._spread(second, moved[1][1]))
            self.requests.append(swap(mesh, self.nodes, *amounts))
        self.move(first, moved[0][0], moved[0][2])
        if second is not first:
            self.move(second, moved[1][0], moved[1][2])

    def _together(self, mesh: Mesh) -> _Together | None:
        """One collective of devices that are no block, but have and want equal parts.

        Three have a third each: two are one half of the mesh, and the third is the other.
        """
        if mesh.idle:
            return None
        if not mesh.halves:
            return self._together_in_block(mesh)
        sides = [side for side in (self.held, self.wanted) if side.split(mesh) != REPLICATE]
        part = self._readers(mesh, 0)  # without a reader a half has no part, if a share of 1e-17
        equal = 0 < part < 1 and all(abs(one.share(mesh) - part) < ROUNDING for one in sides)
        collective = _collective_of(self.held.split(mesh), self.wanted.split(mesh))
        one, other = map(self._together, mesh.halves) if collective and equal else (None, None)
        if not one or not other or len(one.rows) != len(other.rows):
            return None
        if not {one.collective, other.collective} <= {"", collective}:
            return None
        rows = np.hstack([one.rows, other.rows + mesh.halves[0].cores])
        return one._replace(collective=str(collective), rows=rows)

    def _together_in_block(self, mesh: Mesh) -> _Together | None:
        block, pairs = mesh.block, [*zip(self.held.spec(mesh), self.wanted.spec(mesh), strict=True)]
        moving = tuple(held != wanted for held, wanted in pairs)
        of = {_collective_of(*pair) for pair in pairs if pair[0] != pair[1]}
        if block is None or len(of) > 1 or None in of or not block.busy(self.nodes).all():
            return None
        rows = block.groups(moving, block.busy(self.nodes)).rows()
        return _Together("".join(map(str, of)), rows, block.largest)

    def _part(self, mesh: Mesh, own: Shards) -> float:
        """Fraction of what the mesh wants that a device with these shards does."""
        node = self.wanted.node
        cut = {types[node] for types in mesh.all_types if self.wanted.on(types) != REPLICATE}
        return prod(own[node][type_] / mesh.shards[node][type_] for type_ in cut)

    def _of_half(self, mesh: Mesh, i: int, old: float, new: float) -> tuple[float, float, float]:
        """(held as it was, received across, spread over the half's devices).

        Of what a half wants it has a part already; the rest comes from the
        other half. 100 bytes that lie by rows, half and half, are wanted by
        columns, the first quarter by the first half, or whole by both:

            by columns: wants 25, of which its rows are 12.5    receives 12.5
            whole:      wants 100, of which its rows are 50     receives 50

        What is received lies anywhere in the half from now on: ``new`` to the
        meshes below. What was ``new`` here already lies evenly over all readers;
        a half that wants the whole lacks what the other half's readers have.
        """
        wants, keeps = self._wants(mesh, i), self._keeps(mesh, i)
        if not wants:
            return 0.0, 0.0, 0.0
        lacks = received = self._real(old * (wants - keeps))
        if self.wanted.split(mesh) == REPLICATE:
            received += self._real(new * (1 - self._readers(mesh, i)))
        return old * keeps, received, lacks + new * wants

    def _real(self, bytes_: float) -> float:
        """So many bytes, or none where they are what rounding has left of none."""
        return bytes_ if bytes_ > ROUNDING * self.whole else 0.0

    def _spread(self, mesh: Mesh, received: float) -> Bytes:
        """What each busy device takes of what its mesh receives: of what it wants, its share."""
        if not mesh.busy(self.nodes):
            return np.zeros(0)
        if not mesh.halves:
            reads = mesh.mask((self.wanted.node,))[mesh.mask(self.nodes)]
            return np.where(reads, received / max(1, int(reads.sum())), 0.0)
        share = self._readers if self.wanted.split(mesh) == REPLICATE else self._wants
        halves = enumerate(mesh.halves)
        return np.concatenate([self._spread(half, received * share(mesh, i)) for i, half in halves])

    def _readers(self, mesh: Mesh, i: int) -> float:
        """One half's share of the devices that read."""
        cores = [half.count((self.wanted.node,)) for half in mesh.halves]
        return cores[i] / sum(cores) if sum(cores) else 0.0

    def _wants(self, mesh: Mesh, i: int) -> float:
        """Fraction of what the mesh wants that one half does."""
        if mesh.halves[i].shards[self.wanted.node].empty:
            return 0.0
        share = self.wanted.share(mesh)
        return 1.0 if self.wanted.split(mesh) == REPLICATE else (share, 1 - share)[i]

    def _keeps(self, mesh: Mesh, i: int) -> float:
        """Fraction of what the mesh wants that one half holds and wants."""
        if mesh.halves[i].shards[self.held.node].empty:
            return 0.0
        wants, share, held = self._wants(mesh, i), self.held.share(mesh), self.held.split(mesh)
        if held == REPLICATE:
            return wants
        holds = (share, 1 - share)[i]
        return min(holds, wants) if held == self.wanted.split(mesh) else holds * wants

    def _in_block(self, mesh: Mesh, old: float, new: float) -> None:
        """All do the same: an all-to-all where a dimension changes, then all-gathers."""
        held, wanted = self.held.spec(mesh), self.wanted.spec(mesh)
        pairs = list(zip(held, wanted, strict=True))
        changes = tuple(a != b and REPLICATE not in (a, b) for a, b in pairs)
        gathers = tuple(a != REPLICATE and b == REPLICATE for a, b in pairs)
        block = mesh.block
        if block is None or not (new or any(changes) or any(gathers)):
            return
        busy = block.busy(self.nodes)
        if not block.full and any((block.busy((node,)) != busy).any() for node in self.nodes):
            busy = np.ones_like(busy)  # those who hold, those who want, and who stands between
        everywhere = tuple(b == REPLICATE for b in wanted)
        exchanged, gathered, spread = (
            block.groups(levels, busy) for levels in (changes, gathers, everywhere)
        )
        wants = self._largest(mesh, block, wanted)
        if old and exchanged.size > 1:
            size = np.array(old * wants / gathered.size)
            self.requests.append(Request(mesh, "all-to-all", (exchanged,), (size,)))
        if old and gathered.size > 1:
            self.requests.append(Request(mesh, "all-gather", (gathered,), (np.array(old * wants),)))
        if new and spread.size > 1:
            self.requests.append(Request(mesh, "all-gather", (spread,), (np.array(new * wants),)))

    def _largest(self, mesh: Mesh, block: Block, wanted: Sequence[Placement]) -> float:
        """Fraction of what the mesh wants that its first device does, the largest of all."""
        node = self.wanted.node
        whole, own = mesh.shards[node], block.largest[node]
        levels = zip(mesh.types, wanted, strict=True)
        cut = {types[node] for types, placement in levels if placement != REPLICATE}
        return prod(own[type_] / whole[type_] for type_ in cut)


def _unlike(mesh: Mesh) -> bool:
    """Whether devices of several kinds are in it."""
    return len({device for device, _ in mesh.group.kinds}) > 1


def _collective_of(held: Placement, wanted: Placement) -> str | None:
    """What brings a device from one placement to another, if that is one collective."""
    if held in (wanted, REPLICATE):
        return None
    return "all-gather" if wanted == REPLICATE else "all-to-all"


class _Together(NamedTuple):
    """A collective ("" for none) of devices by row, and what the first device has."""

    collective: str
    rows: NDArray[np.int64]
    shards: Shards


@dataclass(frozen=True, slots=True)
class PartialSums:
    """Partial sums of tensors of ``nodes`` that lie alike (a bucket, or one node).

    ``held`` says at which splits they are partial; ``size`` gives their bytes for shards of all
    nodes. They are ``wanted`` by readers: at levels where each of these wants a part of the
    positions alone they are scattered, and not gathered again.
    """

    nodes: tuple[int, ...]
    held: Layout
    size: Callable[[Shards], float]
    wanted: Sequence[Layout] = ()
    alone_ps: Callable[[Request], int] | None = None
    """How long a request takes alone. By it unlike devices sum as one, or each kind by itself."""
    requests: list[Request] = field(default_factory=list)

    def complete(self, mesh: Mesh) -> list[Request]:
        """Every device ends with what is wanted of the sums of its shard."""
        scattered = self._all_scattered(mesh)
        return self._run(mesh, "reduce-scatter" if scattered else "all-reduce")

    def scatter(self, mesh: Mesh) -> list[Request]:
        """Every device ends with the sums of its piece of its shard."""
        return self._run(mesh, "reduce-scatter")

    def gather(self, mesh: Mesh) -> list[Request]:
        """Every device ends with its shard, of which each had its piece."""
        return self._run(mesh, "all-gather")

    def _run(self, mesh: Mesh, collective: str) -> list[Request]:
        """One of the three collectives, of the whole mesh or half by half, with swaps between."""
        if not any(map(self._partial, mesh.all_types)):
            return self.requests
        busy = [half for half in mesh.halves if half.busy(self.nodes)]
        if not mesh.halves:
            self._in_block(mesh, collective)
        elif len(busy) == 1:
            self._run(busy[0], collective)
        elif (alike := self._alike(mesh)) is None:
            self._apart(mesh, collective)
        else:
            size, all_ = np.array(self.size(alike.shards)), Rows(alike.rows)
            everybody = Rows(np.arange(mesh.cores)[np.newaxis])
            padded = everybody if all_.size < mesh.cores and not alike.cuts else None
            best = [Request(mesh, collective, (all_,), (size,), padded)]
            compare = _unlike(mesh) or (alike.cuts and not mesh.group.together)
            if self.alone_ps and compare:
                apart = replace(self, requests=[])._apart(mesh, collective)
                best = min(best, apart, key=partial(_took_ps, self.alone_ps))
            self.requests.extend(best)
        return self.requests

    def _apart(self, mesh: Mesh, collective: str) -> list[Request]:
        """Half by half, with swaps between where these have parts of the same sums."""
        if not self._partial(mesh.split_types):
            self._halves(mesh, collective)
        elif collective == "all-reduce":
            self._halves(mesh, "reduce-scatter")
            self._swap(mesh, [self.size(mesh.shards)] * 2)
            self._halves(mesh, "all-gather")
        elif collective == "reduce-scatter":
            self._halves(mesh, collective)
            self._swap(mesh, self._pieces(mesh))
        else:
            self._swap(mesh, self._pieces(mesh)[::-1])
            self._halves(mesh, collective)
        return self.requests

    def _halves(self, mesh: Mesh, collective: str) -> None:
        for half in mesh.distinct():
            self._run(half, collective)

    def _partial(self, types: Types) -> bool:
        return self.held.on(types) == PARTIAL

    def _scattered(self, types: Types) -> bool:
        """Whether all readers want the sums by positions at a level."""
        return bool(self.wanted) and all(one.on(types) == POSITIONS for one in self.wanted)

    def _all_scattered(self, mesh: Mesh) -> bool:
        """Whether all levels that leave sums scatter them."""
        if not mesh.halves:
            return all(self._scattered(types) for types in mesh.types if self._partial(types))
        types = mesh.split_types
        here = self._scattered(types) or not self._partial(types)
        return here and all(map(self._all_scattered, mesh.distinct()))

    def _alike(self, mesh: Mesh, *, inside: bool = False) -> _Alike | None:
        """Devices that have sums of the same, whatever their kind and number.

        Twelve are six and six, these three and three, of which one half is two devices and the
        other one: no block, but one collective all the same. Of 24 with dp 3 and tp 8 the
        halves are 16 and 8, and 0 8 16 have sums of the same, 1 9 17, and so on: these are
        process groups of a plan by axes (``Plan.together``). Of other plans, whose halves may
        have unlike pieces, these have to be cut alike into pieces of one size.
        ``inside`` of levels that have sums of the same others may cut: with dp 3 and tp 3 each
        of three is a row.
        """
        if mesh.idle:
            return None
        if not mesh.halves:
            return self._alike_in_block(mesh)
        partial = self._partial(mesh.split_types)
        if not partial and not inside:
            return None
        first, second = (self._alike(half, inside=True) for half in mesh.halves)
        if not first or not second:
            return None
        if not mesh.group.together and not self._equal(first, second):
            return None
        if partial and (first.cuts != second.cuts or len(first.rows) != len(second.rows)):
            return None
        behind = second.rows + mesh.halves[0].cores
        if partial:
            return first._replace(rows=np.hstack([first.rows, behind]))
        if first.rows.shape[1] != second.rows.shape[1]:
            return None
        here = (mesh.partitions[v] for v in self.nodes)
        cut = tuple((one.type, round(one.share, SHARE_DIGITS)) for one in here)
        cuts = cut, first.cuts, second.cuts
        return _Alike(np.vstack([first.rows, behind]), cuts, first.shards)

    def _equal(self, first: _Alike, second: _Alike) -> bool:
        """Whether two halves' devices have sums of one size."""
        one, other = self.size(first.shards), self.size(second.shards)
        return abs(one - other) <= ROUNDING * max(one, other)

    def _alike_in_block(self, mesh: Mesh) -> _Alike | None:
        block, partial = mesh.block, tuple(map(self._partial, mesh.types))
        if block is None:
            return None
        if all(partial):
            return _Alike(np.flatnonzero(mesh.mask(self.nodes))[np.newaxis], (), block.largest)
        busy = block.busy(self.nodes)
        if not busy.all():
            return None
        cuts: Cuts = ()
        for types, all_ in reversed([*zip(mesh.types, partial, strict=True)]):
            cut = tuple((types[v], 0.5) for v in self.nodes)
            cuts = cuts if all_ else (cut, cuts, cuts)
        return _Alike(block.groups(partial, busy).rows(), cuts, block.largest)

    def _pieces(self, mesh: Mesh) -> list[float]:
        """Bytes of the sums that each half's devices keep when they are scattered over both."""
        first, second = (half.count(self.nodes) for half in mesh.halves)
        size = self.size(mesh.shards)
        return [size * first / (first + second), size * second / (first + second)]

    def _swap(self, mesh: Mesh, amounts: Sequence[float]) -> None:
        """The halves' devices receive that much together, each as much as the others."""
        counts = [half.count(self.nodes) for half in mesh.halves]
        first, second = (np.full(n, size / n) for n, size in zip(counts, amounts, strict=True))
        self.requests.append(swap(mesh, self.nodes, first, second))

    def _in_block(self, mesh: Mesh, collective: str) -> None:
        """One collective; or scattered over some levels, and all-reduced over the others."""
        joined = tuple(map(self._partial, mesh.types))
        if collective != "all-reduce":
            self._collective(mesh, collective, joined)
            return
        scattered = map(self._scattered, mesh.types)
        apart = tuple(a and b for a, b in zip(joined, scattered, strict=True))
        rest = tuple(a and not b for a, b in zip(joined, apart, strict=True))
        pieces = self._collective(mesh, "reduce-scatter", apart)
        self._collective(mesh, "all-reduce", rest, 1.0 / pieces)

    def _collective(
        self, mesh: Mesh, name: str, together: tuple[bool, ...], share: float = 1.0
    ) -> int:
        """One of a ``share`` of the sums over levels that are ``together``; by how many devices."""
        block = mesh.block
        if block is None or not mesh.busy(self.nodes):
            return 1
        busy = block.busy(self.nodes)
        members = block.groups(together, busy)
        if members.size > 1:
            size = np.array(self.size(block.largest) * share)
            padded = None if busy.all() else block.groups(together, np.ones_like(busy))
            self.requests.append(Request(mesh, name, (members,), (size,), padded))
        return max(members.size, 1)


def _took_ps(alone_ps: Callable[[Request], int], requests: Sequence[Request]) -> int:
    """How long they take one after the other; those of one level are side by side.

    What comes before the swap of the outermost halves is not beside what comes behind it.
    """
    longest: dict[tuple[bool, int, str], int] = {}
    outermost, swapped = min((one.mesh.level for one in requests), default=0), False
    for one in requests:
        at = swapped, one.mesh.level, one.collective
        longest[at] = max(longest.get(at, 0), alone_ps(one))
        swapped = swapped or (one.collective == "swap" and one.mesh.level == outermost)
    return sum(longest.values())


Cuts = tuple[Any, ...]
"""A level's cut, by node a type and a share, and the cuts of its halves; () where none is below."""
SHARE_DIGITS = 9


class _Alike(NamedTuple):
    """Devices by row, each with sums of the same, and how levels within rows' devices are cut.

    ``shards`` are what a device has.
    """

    rows: NDArray[np.int64]
    cuts: Cuts
    shards: Shards
