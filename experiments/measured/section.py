"""One part of what ``validate`` prints: records as JSON has them, and the columns that a table has.

A record is one comparison, by the names that JSON gives its values.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, NamedTuple, TypeVar

Record = dict[str, Any]
Item = TypeVar("Item")
Key = TypeVar("Key", bound=Hashable)


class Column(NamedTuple):
    """A table's column: the record's value times ``factor`` in a ``form``; empty where unknown."""

    heading: str
    key: str
    form: str = ""
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Section:
    """A comparison: a table and messages to read, and its keys of the JSON."""

    title: str
    rows: list[Record]
    messages: tuple[str, ...]
    data: Record


def lines(records: Iterable[Mapping[str, Any]], columns: Sequence[Column]) -> list[Record]:
    """A table's rows, by their headings."""
    return [
        {column.heading: _cell(record[column.key], column) for column in columns}
        for record in records
    ]


def _cell(value: Any, column: Column) -> Any:
    if value is None:
        return ""
    return column.form.format(value * column.factor) if column.form else value


def grouped(items: Iterable[Item], key: Callable[[Item], Key]) -> dict[Key, list[Item]]:
    """Items by what they have in common, in the order in which groups come up."""
    found: dict[Key, list[Item]] = {}
    for item in items:
        found.setdefault(key(item), []).append(item)
    return found


def relative(predicted: float, measured: float) -> float:
    """The signed relative error of a prediction: 0.1 is one 10 % too slow."""
    return predicted / measured - 1


def median_error(records: Iterable[Record]) -> float:
    """The median size of the records' errors."""
    return float(median(abs(record["error"]) for record in records))


def largest_error(records: Iterable[Record]) -> float:
    """The size of the largest of the records' errors."""
    return float(max(abs(record["error"]) for record in records))
