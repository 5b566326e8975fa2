"""What the tables of a spec are made of: keys, each with what reads its value.

    class LinksTable(Table):
        per_chip = key(whole(1, 4096))     # an int, which must be written
        latency = key(DURATION, 0.0)       # a float, written like "1 us"; 0.0 where it is not

``LinksTable({"per_chip": 4}).latency`` is 0.0; ``LinksTable({"latency": 3})`` raises
``TableError``, which names both what is missing and what needs a unit. A reader
turns what TOML gives into a value, or raises ValueError, which says what would
be right. Nothing is converted but quantities, and whole numbers where any will do.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeGuard, TypeVar, overload

from hardware.quantity import parse_quantity

T = TypeVar("T")
D = TypeVar("D")
Reader: TypeAlias = Callable[[Any], T]
"""What is written to its value; raises ValueError for what is wrong with it."""

_REQUIRED: Any = object()
_NOTHING: Mapping[str, Any] = MappingProxyType({})


class TableError(ValueError):
    """All that is wrong in a table or list: for each, the key path and what to say of it."""

    def __init__(self, found: list[tuple[str, str]]) -> None:
        super().__init__("; ".join(f"{path}: {what}" for path, what in found))
        self.found = found


class Key(Generic[T]):
    """A key of a table: what reads it, and its value where it is not written."""

    def __init__(self, read: Reader[T], default: T) -> None:
        self.read, self.default = read, default


@overload
def key(read: Reader[T]) -> T: ...
@overload
def key(read: Reader[T], default: D) -> T | D: ...
def key(read: Reader[Any], default: Any = _REQUIRED) -> Any:
    """A key of a table; without a default it must be written."""
    return Key(read, default)


class Table:
    """A table of a spec; its class attributes are its keys. Made of what was parsed; frozen.

    Raises TableError for unknown and missing keys and for every value that is wrong.
    """

    def __init__(self, written: Mapping[str, Any] = _NOTHING) -> None:
        if not isinstance(written, Mapping):
            raise ValueError("must be a table")
        keys = {name: k for name, k in vars(type(self)).items() if isinstance(k, Key)}
        absent = keys.keys() - written.keys()
        values, faults = _all_read((n, k.read, written[n]) for n, k in keys.items() if n in written)
        faults += [(n, "is missing") for n in keys if n in absent and keys[n].default is _REQUIRED]
        faults += [(n, _unknown(n, keys)) for n in written if n not in keys]
        if faults:
            raise TableError(faults)
        vars(self).update({n: k.default if n in absent else values[n] for n, k in keys.items()})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def __iter__(self) -> Iterator[tuple[str, Any]]:
        """Keys and values, in the order of the keys."""
        return iter(vars(self).items())


def _unknown(name: str, keys: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, keys, n=1)
    return "unknown key; " + (f"did you mean {near[0]}?" if near else f"known: {', '.join(keys)}")


def _all_read(
    items: Iterable[tuple[str, Reader[Any], Any]],
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Values by name, and every fault: path and ``value: what``."""
    values, faults = dict[str, Any](), list[tuple[str, str]]()
    for name, read, written in items:
        try:
            values[name] = read(written)
        except TableError as error:
            faults += [(f"{name}.{path}", what) for path, what in error.found]
        except ValueError as error:
            faults.append((name, f"{repr(written)[:60]}: {error}"))
    return values, faults


def quantity(unit: str, most: float | None = None, or_else: str = "") -> Reader[float]:
    """Reads "8 GB/s" as a number of that unit; more than ``most`` is wrong, ``or_else``."""

    def read(written: object) -> float:
        value = parse_quantity(written, unit)
        if most is not None and value > most:
            raise ValueError(or_else)
        return value

    return read


def whole(least: int, most: int) -> Reader[int]:
    """Reads a whole number from ``least`` to ``most``."""

    def read(written: object) -> int:
        if isinstance(written, int) and _is_number(written) and least <= written <= most:
            return int(written)
        raise ValueError(f"must be a whole number from {least:,} to {most:,}")

    return read


def number(least: float, most: float, *, above: bool = False) -> Reader[float]:
    """Reads a number from ``least``, or ``above`` it, to ``most``."""
    words = f"above {least:,g} and at most" if above else f"from {least:,g} to"

    def read(written: object) -> float:
        if _is_number(written) and least <= written <= most and not (above and written == least):
            return float(written)
        raise ValueError(f"must be a number {words} {most:,g}")

    return read


def flag(written: object) -> bool:
    """Reads true or false."""
    if isinstance(written, bool):
        return written
    raise ValueError("must be true or false")


def text(written: object) -> str:
    """Reads a text of at most 2,000 characters."""
    if isinstance(written, str) and len(written) <= 2000:
        return written
    raise ValueError("must be a text of at most 2,000 characters")


def one_of(names: Collection[T]) -> Reader[T]:
    """Reads one of a few names, those that there are when it reads."""

    def read(written: object) -> T:
        for name in names:
            if name == written:
                return name
        near = difflib.get_close_matches(str(written), map(str, names), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"must be one of {', '.join(map(repr, names))}{hint}")

    return read


def list_of(read_each: Reader[T], least: int, most: int) -> Reader[list[T]]:
    """Reads a list of ``least`` to ``most`` values."""

    def read(written: object) -> list[T]:
        if not isinstance(written, list) or not least <= len(written) <= most:
            raise ValueError(f"must be a list of {least} to {most} values, in [ ]")
        values, faults = _all_read((str(i), read_each, value) for i, value in enumerate(written))
        if faults:
            raise TableError(faults)
        return list(values.values())

    return read


def entries(table: Callable[[Any], T], least: int, most: int) -> Reader[dict[str, T]]:
    """Reads ``least`` to ``most`` tables of one kind, by their names or numbers."""

    def read(written: object) -> dict[str, T]:
        if not isinstance(written, Mapping):
            raise ValueError("must be a table")
        if not least <= len(written) <= most:
            raise ValueError(f"must have {least} to {most} entries; it has {len(written)}")
        tables, faults = _all_read((name, table, value) for name, value in written.items())
        if faults:
            raise TableError(faults)
        return tables

    return read


def _is_number(written: object) -> TypeGuard[float]:
    """True is 1 in Python, not in a spec."""
    return isinstance(written, int | float) and not isinstance(written, bool)


FLOP_RATE = quantity("FLOP/s")
BYTE_RATE = quantity("B/s")
DURATION = quantity("s")
FREQUENCY = quantity("Hz")
BYTES = quantity("B")
ENERGY_EACH = quantity("J")
ENERGY_PER_BYTE = quantity("J/B")
EFFICIENCY = number(0, 1, above=True)
