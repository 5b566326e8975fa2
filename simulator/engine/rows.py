"""The records of a run as columns, and what of it was not followed but comes again."""

from __future__ import annotations

from array import array as column
from typing import Any, NamedTuple

import numpy as np

from simulator.engine.jobs import Ints, ints

NO_ROW = -1
"""The ``cause`` of what waited for nothing."""


class Columns(NamedTuple):
    """Records as columns of equal length, in the order in which operations ended.

    ``resource`` and ``operation`` are indices into a timeline's resources and
    ``operations``; ``turn`` is the micro-batch or iteration; ``start`` and
    ``end`` are picoseconds. ``cause`` is the row of the record whose end let
    this one begin: the last of what it needed, or NO_ROW.
    """

    resource: column[int]
    operation: column[int]
    turn: column[int]
    start: column[int]
    end: column[int]
    cause: column[int]


class Joins(NamedTuple):
    """Who took part in exchanges: the worker, the exchange's row, and that of what it waited for.

    A worker's own ``cause`` is what it did, or needed, before it came; the
    exchange's is that of whoever came last.
    """

    worker: column[int]
    row: column[int]
    cause: column[int]


class Repeat(NamedTuple):
    """A stretch of a run that was followed once: ``turns`` in ``span_ps``, until ``end_ps``.

    It came ``times`` more behind itself, every turn that much later.
    """

    turns: int
    span_ps: int
    times: int
    end_ps: int


class Rows:
    """What was written of a run while it was followed."""

    repeat: Repeat | None = None

    def __init__(self, columns: Columns, joins: Joins) -> None:
        self._columns = columns
        self._joins = joins

    @property
    def columns(self) -> Columns:
        """A row for each operation on each resource."""
        return self._columns

    @property
    def joins(self) -> Joins:
        """A row for each party of each exchange."""
        return self._joins

    @property
    def followed(self) -> Rows:
        """Those that events wrote."""
        return self

    @property
    def often(self) -> Ints:
        """How often each of these happened, all as long, each time with what was around it."""
        return np.ones(len(self.followed.columns.end), dtype=np.int64)

    @property
    def end_ps(self) -> int:
        """When the last one ends, picoseconds."""
        ends = self._columns.end
        return ends[-1] if len(ends) else 0

    @property
    def turns(self) -> int:
        """Micro-batches, or iterations."""
        return int(ints(self.followed.columns.turn).max(initial=-1)) + 1

    def __len__(self) -> int:
        return len(self._columns.end)


def as_column(typecode: str, values: Ints) -> column[Any]:
    """A column to keep."""
    return column(typecode, values.astype(typecode).tobytes())
