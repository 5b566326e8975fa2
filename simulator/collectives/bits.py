"""Numbers as corners of a cube: their bits, moved together and apart."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import or_

import numpy as np

from simulator.engine.jobs import Ints


def packed(bits: Ints, axes: int) -> Ints:
    """The bits at ``axes`` moved together: of 1011 at axes 1010 that is 11."""
    parts = [(bits >> low & ones) << place for low, place, ones in _runs(axes)]
    return reduce(or_, parts) if parts else np.zeros_like(bits)


def spread(numbers: Ints, axes: int) -> Ints:
    """The other way: the bits of numbers put at ``axes``."""
    parts = [(numbers >> place & ones) << low for low, place, ones in _runs(axes)]
    return reduce(or_, parts) if parts else np.zeros_like(numbers)


@lru_cache(maxsize=1 << 12)
def _runs(axes: int) -> tuple[tuple[int, int, int], ...]:
    """Neighbouring axes: the lowest, how many are below in other runs, and a 1 for each."""
    found, place = [], 0
    while axes:
        low = (axes & -axes).bit_length() - 1
        run = axes >> low
        length = (run ^ (run + 1)).bit_length() - 1
        found.append((low, place, (1 << length) - 1))
        place += length
        axes &= ~(((1 << length) - 1) << low)
    return tuple(found)


def weighed(bits: Ints, weights: Sequence[int]) -> Ints:
    """The sum of the weights of every number's bits."""
    found = np.zeros_like(bits)
    if len(bits) > len(weights):
        for place, weight in enumerate(weights):
            found += (bits >> place & 1) * weight
        return found
    return (bits[:, np.newaxis] >> np.arange(len(weights)) & 1) @ np.array(weights, dtype=np.int64)


def axes_in(axes: int) -> list[int]:
    """The numbers of axes, lowest first."""
    return [axis for axis in range(axes.bit_length()) if axes >> axis & 1]


def corners(axes: int) -> Ints:
    """All combinations of bits at some axes."""
    return spread(np.arange(1 << axes.bit_count()), axes)
