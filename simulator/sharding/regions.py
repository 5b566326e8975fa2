"""Which part of a tensor each core has, by rows and columns, and who sends whom what of it.

A region is a box of the tensor, in fractions: rows [r0, r1) of its samples,
columns [c0, c1) of its channels, and [p0, p1) of its positions. Stages are laid out differently, so
every core of one receives what it reads from those of the other who have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from simulator.engine.jobs import Floats, Ints
from simulator.sharding.mesh import Mesh
from simulator.sharding.spec import COLUMNS, POSITIONS, ROWS, Placement

AT_ONCE = 1 << 22
SIDES = {ROWS: (0, 1), COLUMNS: (2, 3), POSITIONS: (4, 5)}
"""Where the bounds have the two ends of what a placement cuts."""
EVERYTHING = np.array([0.0, 1.0] * len(SIDES))
ROUNDING = 1e-9
"""Of a tensor's side: less is what shares that should be equal differ by."""


class Regions(NamedTuple):
    """Cores, and the region of each: ``bounds`` has r0, r1, c0, c1, p0, p1 in columns."""

    cores: Ints
    bounds: Floats


class Messages(NamedTuple):
    """From whom to whom, and which fraction of the tensor."""

    sources: Ints
    targets: Ints
    shares: Floats


def regions(
    root: Mesh,
    first: int,
    node: int,
    by_type: Sequence[Placement],
    *,
    whole: bool,
    once: bool = False,
) -> Regions:
    """The region that each core of a part has of a node's tensor; ``first`` is its first core.

    With ``whole`` shards odd samples and channels go to the first halves, as in
    ``mesh``. Where two halves have the same and cut it differently, ``once`` leaves
    the second away: any two regions are then equal, or have nothing in common. Of three
    cores the first two have a row each, the third has both: it is left away.
    """

    def collected(part: Mesh, first: int, bounds: Floats) -> list[Regions]:
        if part.shards[node].empty:
            return []
        if not part.halves:
            return [_of_block(part, first, node, by_type, whole, bounds)]
        type_, share = part.partitions[node].type, part.partitions[node].share
        behind = part.halves[0].cores
        sides = [
            collected(half, first + behind * i, _cut(bounds, by_type[type_], share, i))
            for i, half in enumerate(part.halves)
        ]
        alike = by_type[type_] not in SIDES
        if once and alike and sides[0] and _different(sides[0]) != _different(sides[1]):
            sides.pop()
        return [one for side in sides for one in side]

    found = collected(root, first, EVERYTHING)
    if not found:
        return Regions(np.zeros(0, np.int64), np.zeros((0, len(EVERYTHING))))
    cores, bounds = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Regions(cores, bounds)


def _different(found: Sequence[Regions]) -> set[tuple[float, ...]]:
    """Regions, whoever has them."""
    return {tuple(row) for _, bounds in found for row in _rounded(bounds).tolist()}


def _cut(bounds: Floats, placement: Placement, share: Floats | float, half: int) -> Floats:
    """One half of what the placement cuts, in the last axis of some bounds."""
    found = bounds.copy()
    if placement in SIDES:
        low, high = SIDES[placement]
        middle = bounds[..., low] + share * (bounds[..., high] - bounds[..., low])
        found[..., low if half else high] = middle
    return found


def _of_block(
    part: Mesh, first: int, node: int, by_type: Sequence[Placement], whole: bool, bounds: Floats
) -> Regions:
    """A block's cores, halved level by level as ``mesh`` halves them."""
    counts = np.array([part.shards[node]], dtype=float)
    here = bounds[np.newaxis]
    for types in part.types:
        type_ = types[node]
        before = counts[:, type_]
        kept = np.ceil(before / 2) if whole else before / 2
        share = np.divide(kept, before, out=np.zeros_like(kept), where=before > 0)
        sides = [_cut(here, by_type[type_], share, half) for half in (0, 1)]
        here = np.stack(sides, axis=1).reshape(-1, len(bounds))
        counts = np.repeat(counts, 2, axis=0)
        counts[0::2, type_] = kept
        counts[1::2, type_] = before - kept
    busy = np.flatnonzero(part.mask([node]))
    return Regions(first + busy, here[busy])


def messages(held: Regions, wanted: Regions) -> Messages:
    """What every core that wants something gets, and from whom; ``held`` has everything once.

    Where several cores hold the same, those who want it ask the one that stands
    opposite: of two holders the first serves the first half of the askers. Nobody
    sends to itself.
    """
    holder, asker, of = _who(held.bounds, wanted.bounds)
    a, b = held.cores[holder], wanted.cores[asker]
    goes = a != b
    return Messages(a[goes], b[goes], of[goes])


def _who(has: Floats, asks: Floats) -> tuple[Ints, Ints, Floats]:
    """Holders and askers by their places among the bounds, and what of the tensor they pass on."""
    found: list[tuple[Ints, Ints, Floats]] = []
    distinct, number = np.unique(_rounded(has), axis=0, return_inverse=True)
    number = number.ravel()
    order = np.argsort(number, kind="stable")
    starts = np.searchsorted(number[order], np.arange(len(distinct)))
    many = np.bincount(number, minlength=len(distinct))
    step = max(AT_ONCE // max(len(distinct), 1), 1)
    for begin in range(0, len(asks), step):
        area = _overlap(distinct, asks[begin : begin + step])
        which, asker = np.nonzero(area > ROUNDING ** len(SIDES))
        asking = np.bincount(which, minlength=len(distinct))
        before = np.concatenate([[0], np.cumsum(asking)])[which]
        place = (np.arange(len(which)) - before) * many[which] // asking[which]
        found.append((order[starts[which] + place], asker + begin, area[which, asker]))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    holders, askers, shares = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return holders, askers, shares


class Together(NamedTuple):
    """Groups of cores that want the same, a group a row, and the largest part of the tensor."""

    groups: Ints
    share: float


def in_parts(held: Regions, wanted: Regions) -> tuple[Regions, Together | None]:
    """What each core is sent where those that want the same share it out, and who gathers then.

    Parts are cut where those who hold the tensor cut it most, so that each comes from
    one holder. As it is where nobody wants the same, or not equally many do.
    """
    distinct, number = np.unique(np.round(wanted.bounds, 12), axis=0, return_inverse=True)
    number = number.ravel()
    many = np.bincount(number, minlength=len(distinct))
    if not len(many) or many.min() != many.max() or many[0] < 2:
        return wanted, None
    order = np.argsort(number, kind="stable")
    groups = wanted.cores[order].reshape(len(distinct), -1)
    low, high = max(SIDES.values(), key=lambda side: len(set(held.bounds[:, side[0]].tolist())))
    bounds = wanted.bounds.copy()
    rank = np.empty(len(number))
    rank[order] = np.tile(np.arange(many[0]), len(distinct))
    start, length = bounds[:, low].copy(), bounds[:, high] - bounds[:, low]
    bounds[:, low] = start + length * rank / many[0]
    bounds[:, high] = start + length * (rank + 1) / many[0]
    area = np.prod([distinct[:, b] - distinct[:, a] for a, b in SIDES.values()], axis=0)
    return Regions(wanted.cores, bounds), Together(groups, float(area.max()))


def once_for_all(layouts: Sequence[Regions], *, wanted: bool) -> list[int]:
    """Which of the layouts in which a tensor's readers have it matter; the others are within them.

    Who is sent the whole ``wanted`` has its parts, too. Errors (held, not wanted) of several
    readers are summed where they are in parts, and leave from there.
    """
    left = list(range(len(layouts)))
    for k in range(len(layouts)):
        others = [layouts[i] for i in left if i != k]
        if any(_within(*((layouts[k], o) if wanted else (o, layouts[k]))) for o in others):
            left.remove(k)
    return left


def _within(inner: Regions, outer: Regions) -> bool:
    """Whether every core of a layout has its region within that of the other."""
    place = {core: i for i, core in enumerate(outer.cores.tolist())}
    if not all(core in place for core in inner.cores.tolist()):
        return False
    around = outer.bounds[[place[core] for core in inner.cores.tolist()]]
    lows, highs = inner.bounds[:, 0::2], inner.bounds[:, 1::2]
    return bool(
        (around[:, 0::2] <= lows + ROUNDING).all() and (highs <= around[:, 1::2] + ROUNDING).all()
    )


def _rounded(bounds: Floats) -> Floats:
    return np.round(bounds, 12)


def _overlap(one: Floats, other: Floats) -> Floats:
    """The area that each of some regions has in common with each of others."""
    area: Floats = np.ones((len(one), len(other)))
    for low, high in SIDES.values():
        least = np.minimum(one[:, np.newaxis, high], other[np.newaxis, :, high])
        most = np.maximum(one[:, np.newaxis, low], other[np.newaxis, :, low])
        length = least - most
        area *= np.where(length > ROUNDING, length, 0.0)
    return area
