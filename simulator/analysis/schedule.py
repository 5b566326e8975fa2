"""What every accelerator of a run did when, and what each of its operations had to wait for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.engine.operations import COMPUTE_LEVEL, Branch, Leaf, Operation
from simulator.engine.timeline import Timeline

Ints = NDArray[np.int64]


class Placed(NamedTuple):
    """An accelerator of a run: its (first) core's resource, and those of the links above it."""

    leaf: Leaf
    core: int
    links: tuple[int, ...]

    @property
    def cores(self) -> int:
        """Cores of the array that it stands for."""
        boards = 1 if self.leaf.single else self.leaf.device.cores
        return self.leaf.multiplicity * boards


def placed(timeline: Timeline) -> list[Placed]:
    """Every accelerator of a run, in the order in which the machine built them."""
    found: list[Placed] = []
    number = 0

    def visit(node: Branch | Leaf, links: tuple[int, ...]) -> None:
        nonlocal number
        here = number
        if isinstance(node, Leaf):
            found.append(Placed(node, here, links))
            number += 2 if node.single else node.chips * (node.cores_per_chip + 1)
            return
        number += 1
        for half in node.halves:
            visit(half, (*links, here))

    visit(timeline.program.root, ())
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """Every operation of every accelerator of a run; one place each in ``starts`` and ``ends``.

    Those of ``accelerators[a]`` begin at ``first[a]``, in its order. ``keys``
    are the same for the places of an exchange's partners. Picoseconds.
    """

    accelerators: list[Placed]
    first: list[int]
    starts: list[int]
    ends: list[int]
    keys: Ints
    _order: Ints
    _sorted: Ints
    _previous: dict[int, list[int]]

    def operation(self, place: int) -> Operation:
        """The operation at a place."""
        owner = self.owner(place)
        return self.accelerators[owner].leaf.operations[place - self.first[owner]]

    def owner(self, place: int) -> int:
        """The number of the accelerator that a place belongs to."""
        return bisect_right(self.first, place) - 1

    def partners(self, place: int) -> list[int]:
        """The places of the same exchange on all who take part, or of the operation alone."""
        key = self.keys[place]
        ends = (np.searchsorted(self._sorted, key, side=side) for side in ("left", "right"))
        low, high = map(int, ends)
        found: list[int] = self._order[low:high].tolist()
        return found

    def needs(self, owner: int, position: int) -> list[int]:
        """What its accelerator had done before an operation could begin, as positions.

        Besides what it needs, what the core computed before: operations are
        issued in order, an exchange also, where that had ended by then.
        """
        leaf = self.accelerators[owner].leaf
        if leaf.needs is None:
            return [position - 1] if position else []
        needed = list(leaf.needs[position])
        before, first = self._previous[id(leaf)][position], self.first[owner]
        if before >= 0 and self.ends[first + before] <= self.starts[first + position]:
            needed.append(before)
        return needed

    def waited_for(self, place: int) -> int | None:
        """The place whose end let this operation begin, the last of all who take part."""
        needed = [
            self.first[owner] + position
            for member in self.partners(place)
            for owner in (self.owner(member),)
            for position in self.needs(owner, member - self.first[owner])
        ]
        return max(needed, key=self.ends.__getitem__, default=None)


def schedule(timeline: Timeline) -> Schedule:
    """Read a run's records along its program."""
    accelerators = placed(timeline)
    count = len(timeline.program.operations)
    keys = np.concatenate(
        [np.zeros(0, np.int64), *(_keys(accelerator, count) for accelerator in accelerators)]
    )
    resource, operation, start, end = (np.asarray(c, np.int64) for c in timeline.columns)
    records = resource * count + operation
    by_record = np.argsort(records, kind="stable")
    found = by_record[np.searchsorted(records, keys, sorter=by_record)] if len(keys) else by_record
    order = np.argsort(keys, kind="stable")
    sizes = [len(accelerator.leaf.operations) for accelerator in accelerators]
    return Schedule(
        accelerators,
        list(accumulate(sizes, initial=0))[:-1],
        start[found].tolist(),
        end[found].tolist(),
        keys,
        order,
        keys[order],
        {id(a.leaf): list(_previous(a.leaf)) for a in accelerators if a.leaf.needs is not None},
    )


def _keys(accelerator: Placed, count: int) -> Ints:
    """Resource times ``count`` plus operation, of each operation of an accelerator."""
    where = (*accelerator.links, accelerator.core)  # level -1 is the core
    operations = accelerator.leaf.operations
    keys = [where[operation.level] * count + operation.index for operation in operations]
    return np.array(keys, dtype=np.int64)


def _previous(leaf: Leaf) -> Iterator[int]:
    """Per operation, the position of what its core computed before, or -1."""
    last = -1
    for position, operation in enumerate(leaf.operations):
        yield last
        if operation.level == COMPUTE_LEVEL:
            last = position
