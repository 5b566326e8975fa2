"""Writing down what happens: cheaply while it does, as columns for whoever reads it afterwards."""

from __future__ import annotations

from array import array as column
from collections.abc import Sequence
from typing import Any

import numpy as np

from simulator.engine.jobs import Ints
from simulator.engine.timeline import NO_ROW, Columns, Joins


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

    def columns(self) -> Columns:
        """All records, in the order in which they were written."""
        done = _ints(self.done)
        operation, turn, start, end = (
            _column(kept.typecode, _ints(kept)[done])
            for kept in (self._operation, self._turn, self._start, self._end)
        )
        cause = _column("i", self._rows(_ints(self._cause)[done]))
        return Columns(self.resource, operation, turn, start, end, cause)

    def joins(self) -> Joins:
        """Who took part in exchanges."""
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
