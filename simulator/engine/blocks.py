"""Blocks: what a worker computes in one go is one event, and is written down at once.

An acceleration, switched off by ``ACCELARRAY_PLAIN=blocks`` (or ``1``, see
``simulator.engine``).

It assumes that a worker's cores take one operation at a time, in the order of the lines; that
nobody else uses its HBM, or that none is followed; and that neither pace nor units make an
operation's time depend on when it runs. Then of lines k, k + 1, ... of which each but the first
needs nothing but computations, and exchanges that a line before has waited for already, each
begins when the one before ends: begin_(k+1) = end_k. What they need else is over by then, as
cores compute in order. So when the first begins, all ends are known, and nobody can tell when
the inner ones fire: an exchange, or another worker, waits for a line that ends a block or is
behind one. (An exchange that needs an inner line is issued behind the block. It would not be
issued earlier without blocks, as a worker issues its lines in order and waits for computations.)

    a (3 ps), b (needs a; 4 ps; 10 B of HBM at 2 B/ps), x (an exchange), c (needs x), d, e (x)
    (a, b): from t on   a ends at t + 3, b at t + 3 + max(4, 10 / 2) = t + 8
    (c, d, e): from the end of x on
"""

from __future__ import annotations

from array import array as column
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.engine.jobs import Ints, as_kept
from simulator.engine.operations import Operation, Task

ACCELERATION = "blocks"


def blocks_of(template: Sequence[Task], lines: Iterable[int]) -> list[tuple[int, ...]]:
    """Lines in their order, those together that are done in one go.

    a, b, x (of two), c (needs x), d, e (needs x)     (a, b), (x), (c, d, e)
    """
    order = list(lines)
    ahead = {line for line in order if not template[line].computes}
    waited = set[int]()
    found, block = list[tuple[int, ...]](), list[int]()
    for line in order:
        if not template[line].computes:
            ahead.discard(line)
            found += [tuple(block), (line,)] if block else [(line,)]
            block = []
            continue
        needed = {need for need in template[line].needs if not template[need].computes}
        if block and not needed <= waited:
            found.append(tuple(block))
            block = []
        waited |= needed - ahead
        block.append(line)
    return [*found, tuple(block)] if block else found


class Timed(NamedTuple):
    """A computation of a block with its ``number`` in the log and how long it takes alone.

    ``through_ps`` are what its HBM needs for its bytes, which are written down by the number
    ``moved`` (None: there are none).
    """

    operation: Operation
    number: int
    duration_ps: int
    through_ps: int = 0
    moved: int | None = None


class Block:
    """Some computations that follow each other.

    Its lines are the computations, then what they move in HBM. Columns say of each line its
    number, when it begins and ends in picoseconds from the block's begin, ``after`` which line
    that is (-1: none of these), and whether it is ``moved`` in a memory. ``count`` are the
    computations.
    """

    def __init__(self, operations: Sequence[Timed]) -> None:
        self.count = len(operations)
        core, memory = list[_Line](), list[_Line]()
        now = 0
        for last, one in enumerate(operations, -1):
            ends = now + max(one.duration_ps, one.through_ps)
            core.append(_Line(one.number, now, ends, last))
            if one.moved is not None:
                memory.append(_Line(one.moved, now, now + one.through_ps, last))
            now = ends
        self.duration_ps = now
        crossing = (one.operation for one in operations if one.moved is not None)
        self.hbm_bytes = sum((operation.hbm_bytes for operation in crossing), 0.0)
        columns = zip(*core, *memory, strict=True)
        self.numbers, self.begin, self.end, self.after = map(list, columns)
        self.moved = [place >= self.count for place in range(len(self.end))]


class _Line(NamedTuple):
    """Of a block, as its columns have it."""

    number: int
    begin: int
    end: int
    after: int


class Unrolled(NamedTuple):
    """The lines of all blocks: their numbers, what records say of each, and where it was done.

    ``said`` are operation, micro-batch, start, end and cause; ``moved`` are those on a memory.
    """

    number: Ints
    said: list[Ints]
    resource: Ints
    moved: NDArray[np.bool_]


class BlockLog:
    """All blocks that were written, each as often as it was: a line here, many in the end."""

    def __init__(self) -> None:
        self._offset: dict[Block, int] = {}
        self._operation, self._after = column("i"), column("i")
        self._begin, self._end = column("q"), column("q")
        self._moved = column("b")
        # above a block's lines from its offset on, below what is said whenever it is written
        self._line, self._size = column("i"), column("i")
        self._micro_batch, self._start, self._cause, self._first = (column(kind) for kind in "iqii")
        self._core, self._memory = column("i"), column("i")
        self.lines = 0
        """Of all of them together."""

    def __len__(self) -> int:
        return len(self._first)

    def write(
        self,
        block: Block,
        on: tuple[int, int],
        micro_batch: int,
        start_ps: int,
        cause: int,
        first: int,
    ) -> None:
        """A block that waited for the number ``cause``; its lines have those from ``first`` on.

        It was done ``on`` a core and a memory, by their numbers.
        """
        offset, lines = self._offset.get(block), len(block.numbers)
        if offset is None:
            offset = self._offset[block] = len(self._end)
            self._operation.extend(block.numbers)
            self._begin.extend(block.begin)
            self._end.extend(block.end)
            self._after.extend(block.after)
            self._moved.extend(block.moved)
        self._line.append(offset)
        self._size.append(lines)
        self._micro_batch.append(micro_batch)
        self._start.append(start_ps)
        self._cause.append(cause)
        self._first.append(first)
        core, memory = on
        self._core.append(core)
        self._memory.append(memory)
        self.lines += lines

    def unroll(self) -> Unrolled:
        """All lines, each as often as it was written.

        Block c has lines of two operations, 5 and 7, of 3 and 4 ps, and was written twice:

            start  first     number     0 1 9 10
              10      0      operation  5 7 5  7
              40      9      end        13 17 43 47
        """
        size = as_kept(self._size)
        which = np.repeat(np.arange(len(size), dtype=np.int32), size)
        place = np.arange(len(which), dtype=np.int32)
        place -= np.repeat((np.cumsum(size) - size).astype(np.int32), size)
        line = as_kept(self._line)[which] + place
        first, start = as_kept(self._first)[which], as_kept(self._start)[which]
        after = as_kept(self._after)[line]
        moved = as_kept(self._moved)[line] > 0
        said = [
            as_kept(self._operation)[line],
            as_kept(self._micro_batch)[which],
            start + as_kept(self._begin)[line],
            start + as_kept(self._end)[line],
            np.where(after < 0, as_kept(self._cause)[which], first + after),
        ]
        resource = np.where(moved, as_kept(self._memory)[which], as_kept(self._core)[which])
        return Unrolled(first + place, said, resource, moved)
