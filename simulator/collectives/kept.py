"""What collectives have worked out and may want again, for all arrays of the process.

A pattern of messages depends on how nodes are wired, not on how fast: a sweep
of bandwidths, the what-ifs of an explanation and two networks on one array
share it. What is asked for is kept by everything that it depends on, least
recently used goes first, and the bound is in bytes: a pattern of a ring of
eight is a hundred bytes, one of irregular groups on a large array a megabyte.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from typing import TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from hardware import Array, Topology, Wires

Made = TypeVar("Made")
MOST_BYTES = 64 << 20
"""Of what is kept in one process."""
ENTRY_BYTES = 500
"""About what an entry takes besides its arrays: its key, and the objects around them."""


class Kept:
    """Values by key, the least recently used forgotten where they are more than ``most_bytes``."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._found: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self.bytes = 0
        self.made: Counter[str] = Counter()
        """How often each sort of thing had to be worked out."""

    def get(self, what: str, key: Hashable, make: Callable[[], Made]) -> Made:
        """What was made for this key before, or is now; ``what`` keeps unlike things apart.

        Arrays, whatever has ``nbytes``, and tuples of these count with their bytes.
        """
        entry = self._found.get((what, key))
        if entry is not None:
            self._found.move_to_end((what, key))
            return cast("Made", entry[0])
        value = make()
        self.made[what] += 1
        self._keep((what, key), value, _bytes(value) + ENTRY_BYTES)
        return value

    def _keep(self, key: Hashable, value: object, size: int) -> None:
        self._found[key] = value, size
        self.bytes += size
        while self.bytes > self._most_bytes:
            _, (_, freed) = self._found.popitem(last=False)
            self.bytes -= freed

    def __len__(self) -> int:
        return len(self._found)

    def clear(self) -> None:
        """Forget everything."""
        self._found.clear()
        self.bytes = 0


def _bytes(value: object) -> int:
    if isinstance(value, tuple):
        return sum(map(_bytes, value))
    return int(getattr(value, "nbytes", 0))


KEPT = Kept(MOST_BYTES)


class Token:
    """Stands for something large in keys: equal things have one token."""

    __slots__ = ()


def speeds(wires: Wires) -> Token:
    """All that times on an array's wires depend on."""
    if _speeds not in wires.kept:
        wires.kept[_speeds] = _speeds(wires.array)
    return cast("Token", wires.kept[_speeds])


def wiring(wires: Wires) -> Token:
    """All that routes depend on: how many there are of what, and how they are joined.

    Not how fast anything is: arrays that differ in that have one wiring.
    """
    if _wiring not in wires.kept:
        wires.kept[_wiring] = _wired(wires.array)
    return cast("Token", wires.kept[_wiring])


@lru_cache(maxsize=64)
def _speeds(array: Array) -> Token:
    del array
    return Token()


def _wired(array: Array) -> Token:
    counts = tuple((d.chips, d.cores_per_chip, count) for d, count in array.group.kinds)
    plain = Topology(array.topology.kind).factor
    return _wiring(counts, replace(array.topology, factor=plain, bytes_per_s=None, latency_s=None))


@lru_cache(maxsize=64)
def _wiring(counts: tuple[tuple[int, int, int], ...], topology: Topology) -> Token:
    del counts, topology
    return Token()


def digest(*arrays: NDArray[np.generic]) -> bytes:
    """Short for arrays in a key: shapes, types and contents."""
    found = blake2b(digest_size=20)
    for array in arrays:
        found.update(f"{array.dtype.char}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.digest()
