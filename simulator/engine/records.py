"""Writing down what happens: cheaply while it does, as columns for whoever reads it afterwards."""

from __future__ import annotations

from array import array as column
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from simulator.engine.blocks import Block, BlockLog
from simulator.engine.jobs import Ints, as_kept, ints
from simulator.engine.operations import Operation

NO_ROW = -1
"""The ``cause`` of what waited for nothing."""


class Columns(NamedTuple):
    """Records as columns of equal length, in the order in which operations ended.

    ``resource`` and ``operation`` are indices into a timeline's resources and
    ``operations``; ``micro_batch`` is the micro-batch or iteration; ``start`` and
    ``end`` are picoseconds. ``cause`` is the row of the record whose end let
    this one begin: the last of what it needed, or NO_ROW.
    """

    resource: column[int]
    operation: column[int]
    micro_batch: column[int]
    start: column[int]
    end: column[int]
    cause: column[int]


class Participants(NamedTuple):
    """Who took part in exchanges: the worker, the exchange's row, and that of what it waited for.

    A worker's own ``cause`` is what it did, or needed, before it came; the
    exchange's is that of whoever came last.
    """

    worker: column[int]
    row: column[int]
    cause: column[int]


def as_column(typecode: str, values: NDArray[Any]) -> column[Any]:
    """A column to keep."""
    found = column(typecode)
    found.frombytes(np.ascontiguousarray(values, typecode).data.cast("B"))
    return found


class Numbered(Protocol):
    """Something that is over, and has a number in the log."""

    number: int


class Log:
    """The records of a run while it goes on.

    An operation that ends is written once, with its number; each resource that
    it was on adds that number. So what a board's four cores share is stored once. A block is
    written once as well, with its numbers for each resource; its records are made in the
    end, for all blocks at once.
    """

    def __init__(self) -> None:
        self.resource, self.done = column("i"), column("i")
        self._operation, self._micro_batch = column("i"), column("i")
        self._start, self._end = column("q"), column("q")
        self._cause = column("i")
        self.worker, self.met, self.waited_for = column("i"), column("i"), column("i")
        self._operations: dict[Operation, int] = {}
        self._blocks = BlockLog()

    @property
    def operations(self) -> tuple[Operation, ...]:
        """All that have been done, by number."""
        return tuple(self._operations)

    def number(self, operation: Operation) -> int:
        """The number of an operation, by which records name it."""
        number = self._operations.get(operation)
        if number is None:
            number = self._operations[operation] = len(self._operations)
        return number

    def note(
        self,
        resource: int,
        operation: Operation,
        micro_batch: int,
        start_ps: int,
        end_ps: int,
        cause: Numbered | None,
    ) -> int:
        """Write an operation that was on one resource; returns its number."""
        waited = NO_ROW if cause is None else cause.number
        number = self.over(self.number(operation), micro_batch, start_ps, end_ps, waited)
        self.resource.append(resource)
        self.done.append(number)
        return number

    def over(self, operation: int, micro_batch: int, start_ps: int, end_ps: int, cause: int) -> int:
        """Write an operation that ends; returns its number, which its ``resource``s follow with.

        ``cause`` is the number of what it waited for, or NO_ROW.
        """
        self._operation.append(operation)
        self._micro_batch.append(micro_batch)
        self._start.append(start_ps)
        self._end.append(end_ps)
        self._cause.append(cause)
        return len(self._end) - 1 + self._blocks.lines

    def block(
        self, block: Block, on: tuple[int, int], micro_batch: int, start_ps: int, cause: int
    ) -> int:
        """Write a block ``on`` a core and a memory; returns its first line's number.

        The others follow. Further cores that did it write their ``rows``. What ended meanwhile
        is written already: the records are brought into order in the end.
        """
        first = len(self._end) + self._blocks.lines
        self._blocks.write(block, on, micro_batch, start_ps, cause, first)
        return first

    def rows(self, resource: int, first: int, count: int) -> None:
        """Write that the operations of a block were done on one more resource."""
        self.resource.extend([resource] * count)
        self.done.extend(range(first, first + count))

    def columns(self) -> Columns:
        """All records, in the order in which they ended."""
        kept = self._operation, self._micro_batch, self._start, self._end, self._cause
        resource, done = as_kept(self.resource), as_kept(self.done)
        said: list[NDArray[Any]] = [as_kept(one) for one in kept]
        if self._blocks:
            number, lines, where, moved = self._blocks.unroll()
            apart = np.ones(len(self._end) + len(number), dtype=bool)
            apart[number] = False
            lines.reverse()
            said = [_merged(apart, one, number, lines.pop()) for one in said]
            for some in (moved, ~moved):  # of those at once memories are first
                resource = np.concatenate([resource, where[some]])
                done = np.concatenate([done, number[some]])
            order = np.argsort(said[3][done], kind="stable")  # those at once as they were written
            resource, done = resource[order], done[order]
            del number, where, moved, apart, order
        self._row = np.zeros(len(said[0]) + 1, dtype=np.int32)
        self._row[done[::-1]] = np.arange(len(done), dtype=np.int32)[::-1]
        self._row[-1] = NO_ROW  # which is also the number of the last of these
        said[4] = self._row[said[4]]
        said.reverse()  # one after the other, so that few are there twice
        return Columns(
            as_column("i", resource), *(as_column(kind, said.pop()[done]) for kind in "iiqqi")
        )

    def participants(self) -> Participants:
        """Who took part in exchanges, in their order; after ``columns``."""
        worker, met, waited_for = map(ints, (self.worker, self.met, self.waited_for))
        row = self._row[met]
        order = np.argsort(row, kind="stable")
        found = worker[order], row[order], self._row[waited_for][order]
        return Participants(*(as_column("i", values) for values in found))


def _merged(apart: NDArray[np.bool_], one: Ints, number: Ints, line: Ints) -> Ints:
    """What is said of each number, of those ``apart`` from blocks and of blocks' lines."""
    found = np.empty(len(apart), dtype=line.dtype)
    found[apart], found[number] = one, line
    return found
