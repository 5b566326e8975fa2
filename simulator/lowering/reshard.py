"""Bringing tensors from the layout they are held in to the one they are read in (deployed).

Inside a block all cores do the same, collectives in groups; where halves
differ they swap what the other one lacks, and each goes on by itself
(docs/deployed.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from planners.partition import III
from simulator.collectives.lattice import Rows
from simulator.lowering.blocks import Block
from simulator.lowering.layouts import Layout, TiedLayout
from simulator.lowering.placement import Part
from simulator.lowering.requests import Bytes, Emit, Request, Types

ROUNDING = 1e-9
"""What of a tensor is no part of it: shares that should be equal differ by their last digits."""


@dataclass(frozen=True, slots=True)
class Relay:
    """Moving one tensor of ``whole`` bytes from how it is ``held`` to how it is ``read``."""

    held: Layout | TiedLayout
    read: Layout
    whole: float
    emit: Emit

    @property
    def nodes(self) -> tuple[int, int]:
        """The two nodes whose splits matter."""
        return self.held.node, self.read.node

    def move(self, part: Part, old: float, new: float = 0.0) -> None:
        """Bring every core of ``part`` what it reads of a tensor.

        The part reads ``old`` bytes that it holds in their first layout, and
        ``new`` that came from outside and are spread over its cores.
        """
        old, new = self._real(old), self._real(new)
        if not part.busy(self.nodes) or not (old or new):
            return
        if not part.halves:
            self._collectives(part, old, new)
            return
        first, second = part.halves
        moved = [self._of_half(part, i, old, new) for i in (0, 1)]
        if moved[0][1] or moved[1][1]:
            cores = [np.flatnonzero(half.mask(self.nodes)) for half in part.halves]
            cores[1] += first.cores
            amounts = (self._spread(first, moved[0][1]), self._spread(second, moved[1][1]))
            halves = tuple(Rows(members[np.newaxis]) for members in cores)
            self.emit(Request(part, "swap", halves, amounts))
        self.move(first, moved[0][0], moved[0][2])
        if second is not first:
            self.move(second, moved[1][0], moved[1][2])

    def _of_half(self, part: Part, i: int, old: float, new: float) -> tuple[float, float, float]:
        """(held in the first layout, received across, spread over the half's cores).

        Of what a half reads it has a part already; the rest comes from the
        other half. 100 bytes that lie by rows, half and half, are read by
        columns, the first quarter by the first half, or whole by both:

            by columns: reads 25, of which its rows are 12.5    receives 12.5
            whole:      reads 100, of which its rows are 50     receives 50

        What is received lies anywhere in the half from now on: ``new`` to the
        parts below. What was ``new`` here already lies evenly over all readers;
        a half that reads the whole lacks what the other half's readers have.
        """
        reads = self._reads(part, i)
        keeps = self._keeps(part, i)
        if not reads:
            return 0.0, 0.0, 0.0
        lacks = received = self._real(old * (reads - keeps))
        if self.read.at(part)[0] is III:
            received += self._real(new * (1 - self._readers(part, i)))
        return old * keeps, received, lacks + new * reads

    def _real(self, bytes_: float) -> float:
        """So many bytes, or none where they are what rounding has left of none."""
        return bytes_ if bytes_ > ROUNDING * self.whole else 0.0

    def _spread(self, part: Part, received: float) -> Bytes:
        """What each busy core takes of what its part receives: of what it reads, its share."""
        if not part.busy(self.nodes):
            return np.zeros(0)
        if not part.halves:
            reads = part.mask((self.read.node,))[part.mask(self.nodes)]
            return np.where(reads, received / max(1, int(reads.sum())), 0.0)
        whole = self.read.at(part)[0] is III
        share = self._readers if whole else self._reads
        return np.concatenate(
            [self._spread(half, received * share(part, i)) for i, half in enumerate(part.halves)]
        )

    def _readers(self, part: Part, i: int) -> float:
        """One half's share of the cores that read."""
        cores = [np.count_nonzero(half.mask((self.read.node,))) for half in part.halves]
        return cores[i] / sum(cores) if sum(cores) else 0.0

    def _reads(self, part: Part, i: int) -> float:
        """Fraction of what the part reads that one half does."""
        if part.halves[i].shards[self.read.node].empty:
            return 0.0
        layout, share = self.read.at(part)
        return 1.0 if layout is III else (share, 1 - share)[i]

    def _keeps(self, part: Part, i: int) -> float:
        """Fraction of what the part reads that one half holds and reads."""
        if part.halves[i].shards[self.held.node].empty:
            return 0.0
        reads = self._reads(part, i)
        layout, share = self.held.at(part)
        if layout is III:
            return reads
        holds = (share, 1 - share)[i]
        return min(holds, reads) if layout is self.read.at(part)[0] else holds * reads

    def _collectives(self, part: Part, old: float, new: float) -> None:
        """All cores do the same: an all-to-all where a dimension changes, then all-gathers."""
        block, changes = part.block, part.together(self._changes)
        gathers = part.together(self._gathers)
        if block is None or not (new or any(changes) or any(gathers)):
            return
        busy = block.busy(self.nodes)
        if not block.full and any((block.busy((node,)) != busy).any() for node in self.nodes):
            busy = np.ones_like(busy)  # those who hold, those who read, and who stands between
        exchanged, gathered, needed = (
            block.groups(together, busy)
            for together in (changes, gathers, part.together(self._needs_all))
        )
        reads = self._largest(part, block)
        if old and exchanged.size > 1:
            size = np.array(old * reads / gathered.size)
            self.emit(Request(part, "all-to-all", (exchanged,), (size,)))
        if old and gathered.size > 1:
            self.emit(Request(part, "all-gather", (gathered,), (np.array(old * reads),)))
        if new and needed.size > 1:
            self.emit(Request(part, "all-gather", (needed,), (np.array(new * reads),)))

    def _largest(self, part: Part, block: Block) -> float:
        """Fraction of what the part reads that its first core does, the largest of all."""
        whole, own = part.shards[self.read.node], block.largest[self.read.node]
        cut = {types[self.read.node] for types in part.types if not self._needs_all(types)}
        return prod(own[kind] / whole[kind] for kind in cut)

    def _needs_all(self, types: Types) -> bool:
        return self.read.of(types) is III

    def _changes(self, types: Types) -> bool:
        held, read = self.held.of(types), self.read.of(types)
        return held is not read and III not in (held, read)

    def _gathers(self, types: Types) -> bool:
        return self.held.of(types) is not III and self._needs_all(types)
