"""The records of a run as columns."""

from __future__ import annotations

from array import array as column
from typing import Any, NamedTuple

from simulator.engine.jobs import Ints

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


def as_column(typecode: str, values: Ints) -> column[Any]:
    """A column to keep."""
    return column(typecode, values.astype(typecode).tobytes())
