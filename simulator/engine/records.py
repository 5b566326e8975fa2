"""Writing down what happens: cheaply while it does, as columns for whoever reads it afterwards."""

from __future__ import annotations

from array import array as column
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from simulator.engine.jobs import Ints
from simulator.engine.operations import Operation
from simulator.engine.timeline import NO_ROW, Columns, Joins


class Numbered(Protocol):
    """Something that is over, and has a number in the log."""

    number: int


class Log:
    """The records of a run while it goes on.

    An operation that ends is written once, with its number; each resource that
    it was on adds that number. So a board's four cores write five lines of
    little instead of four of much.
    """

    def __init__(self) -> None:
        self.resource, self.done = column("i"), column("i")
        self._operation, self._turn = column("i"), column("i")
        self._start, self._end = column("q"), column("q")
        self._cause, self._row = column("i"), column("i")
        self.worker, self.met, self.waited_for = column("i"), column("i"), column("i")
        self._in_order = True
        self._operations: dict[Operation, int] = {}

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
        turn: int,
        start_ps: int,
        end_ps: int,
        cause: Numbered | None,
    ) -> int:
        """Write an operation that was on one resource; returns its number."""
        waited = NO_ROW if cause is None else cause.number
        number = self.over(self.number(operation), turn, start_ps, end_ps, waited)
        self.resource.append(resource)
        self.done.append(number)
        return number

    def over(self, operation: int, turn: int, start_ps: int, end_ps: int, cause: int) -> int:
        """Write an operation that ends; returns its number, which its ``resource``s follow with.

        ``cause`` is the number of what it waited for, or NO_ROW.
        """
        rows = self._row
        self._operation.append(operation)
        self._turn.append(turn)
        self._start.append(start_ps)
        self._end.append(end_ps)
        self._cause.append(cause)
        rows.append(len(self.done))
        return len(rows) - 1

    def chained(
        self,
        operations: Sequence[int],
        turn: int,
        start_ps: int,
        offsets: Sequence[int],
        cause: int,
    ) -> int:
        """Write operations one behind the other, all at once; returns the first one's number.

        They begin and end at ``offsets`` from the start. What ended meanwhile is
        written already: the records are brought into order in the end.
        """
        many, first = len(operations), len(self._row)
        times = [start_ps + offset for offset in offsets]
        self._operation.extend(operations)
        self._turn.extend([turn] * many)
        self._start.extend(times[:-1])
        self._end.extend(times[1:])
        self._cause.append(cause)
        self._cause.extend(range(first, first + many - 1))
        self._row.extend([0] * many)
        self._in_order = False
        return first

    def _bring_into_order(self) -> None:
        """By their ends, those at once as they were written; then each operation's first row."""
        self._in_order = True
        done = _ints(self.done)
        order = np.argsort(_ints(self._end)[done], kind="stable")
        done = done[order]
        self.done = _column("i", done)
        self.resource = _column("i", _ints(self.resource)[order])
        rows = np.zeros(len(self._row), dtype=np.int64)
        rows[done[::-1]] = np.arange(len(done))[::-1]
        self._row = _column("i", rows)

    def columns(self) -> Columns:
        """All records, in the order in which they ended."""
        if not self._in_order:
            self._bring_into_order()
        done = _ints(self.done)
        operation, turn, start, end = (
            _column(kept.typecode, _ints(kept)[done])
            for kept in (self._operation, self._turn, self._start, self._end)
        )
        cause = _column("i", self._rows(_ints(self._cause)[done]))
        return Columns(self.resource, operation, turn, start, end, cause)

    def joins(self) -> Joins:
        """Who took part in exchanges; after ``columns``."""
        rows, causes = (self._rows(_ints(kept)) for kept in (self.met, self.waited_for))
        return Joins(self.worker, _column("i", rows), _column("i", causes))

    def _rows(self, numbers: Ints) -> Ints:
        """The first row of each operation; NO_ROW for NO_ROW."""
        rows = np.append(_ints(self._row), NO_ROW)  # number -1 is the last of these
        found: Ints = rows[numbers]
        return found


def _ints(kept: Sequence[int]) -> Ints:
    return np.asarray(kept, dtype=np.int64)


def _column(typecode: str, values: Ints) -> column[Any]:
    return column(typecode, values.astype(typecode).tobytes())
