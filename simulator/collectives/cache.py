"""Keep what collectives have worked out, for all arrays of the process.

A pattern of messages depends on how nodes are wired, not on how fast: a sweep of bandwidths,
the what-ifs of an explanation and two networks on one array share it (``Wires.topology_key``).
What is kept is found by everything that it depends on, and the least recently used goes
first. The bound is in bytes: a pattern of a ring of eight is a hundred bytes, one of irregular
groups on a large array a megabyte.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np
from cachetools import LRUCache
from numpy.typing import NDArray

from simulator.engine import accelerated

Made = TypeVar("Made")
MOST_BYTES = 128 << 20
"""The most bytes that are kept in one process."""
ENTRY_BYTES = 500
"""About what an entry takes besides its arrays: its key, and the objects around them."""


def _bytes(value: object) -> int:
    """Arrays, whatever has ``nbytes``, and tuples of these count with their bytes."""
    if isinstance(value, tuple):
        return sum(map(_bytes, value))
    return int(getattr(value, "nbytes", 0)) + ENTRY_BYTES


CACHE: LRUCache[Hashable, Any] = LRUCache(MOST_BYTES, _bytes)


def cached(what: str, key: Hashable, make: Callable[[], Made]) -> Made:
    """Return what was made for this key before, or make it; ``what`` keeps unlike things apart.

    With and without accelerations (``engine.accelerated``) things are made and kept by themselves.
    """
    whole = what, accelerated("symmetry"), key
    try:
        found: Made = CACHE[whole]
    except KeyError:
        found = make()
        if _bytes(found) <= MOST_BYTES:
            CACHE[whole] = found
    return found


def digest(*arrays: NDArray[np.generic]) -> bytes:
    """Return a short text for arrays in a key: of shapes, types and contents."""
    found = blake2b(digest_size=20)
    for array in arrays:
        found.update(f"{array.dtype.char}{array.shape}".encode())
        found.update(np.ascontiguousarray(array).data)
    return found.digest()
