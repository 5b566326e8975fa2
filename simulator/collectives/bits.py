"""Numbers as corners of a cube: their bits, moved together and apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from simulator.engine.jobs import Ints


def packed(bits: Ints, axes: int) -> Ints:
    """The bits at ``axes`` moved together: of 1011 at axes 1010 that is 11."""
    found = np.zeros_like(bits)
    for low, place, ones in _runs(axes):
        found |= (bits >> low & ones) << place
    return found


def spread(numbers: Ints, axes: int) -> Ints:
    """The other way: the bits of numbers put at ``axes``."""
    found = np.zeros_like(numbers)
    for low, place, ones in _runs(axes):
        found |= (numbers >> place & ones) << low
    return found


def _runs(axes: int) -> Iterator[tuple[int, int, int]]:
    """Neighbouring axes: the lowest, how many are below in other runs, and a 1 for each."""
    place = 0
    while axes:
        low = (axes & -axes).bit_length() - 1
        run = axes >> low
        length = (run ^ (run + 1)).bit_length() - 1
        yield low, place, (1 << length) - 1
        place += length
        axes &= ~(((1 << length) - 1) << low)


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
