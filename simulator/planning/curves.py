"""Seconds of collectives among like cores by size: sampled once, read for thousands of sizes."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hardware import Wires
from simulator.collectives.algorithms import CollectiveError
from simulator.collectives.choice import members_of, offer
from simulator.collectives.groups import Groups
from simulator.collectives.lattice import Lattice
from simulator.engine.picoseconds import PICOSECONDS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Relaid = Callable[[Ints, Ints, Floats], Floats]
"""Seconds by the levels that change places, those that are gathered, and bytes."""

SAMPLES = np.array([0.0, 1.0, *(4.0**i for i in range(4, 20)), 4.0**24])
"""Bytes at which collectives are timed. A way's time is concave in its size, so that lines
between two samples lie below it."""
_SAMPLES: list[float] = SAMPLES.tolist()


def curves_of(wires: Wires, first: int, levels: int, algorithm: str) -> Curves:
    """The curves of such cores, shared by all networks as long as they are among the last few."""
    key = wires.key, first, levels, algorithm
    if key not in _KEPT:
        while len(_KEPT) >= MOST_KEPT:
            del _KEPT[next(iter(_KEPT))]
        _KEPT[key] = Curves(wires, first, levels, algorithm)
    return _KEPT[key]


@dataclass(slots=True)
class Curves:
    """Collectives among 2^levels cores, from core ``first`` on, over any set of levels at once.

    A set is a bit mask, bit i the level whose halves are 2^i cores each: of
    eight cores mask 5 makes groups 0 1 4 5 and 2 3 6 7. All groups run at once,
    as the simulator runs them, and alone.
    """

    wires: Wires
    first: int
    levels: int
    algorithm: str = "auto"
    _known: dict[str, Floats] = field(default_factory=dict)
    _groups: dict[int, Groups] = field(default_factory=dict)
    _ends: dict[tuple[str, int, int], tuple[float, float]] = field(default_factory=dict)

    def of_masks(self, collective: str, masks: Ints, size_bytes: Floats) -> Floats:
        """What a collective takes at least, each of its own size among groups of its own mask.

        Nothing where there is no group, or nothing to move.
        """
        found = np.zeros(masks.shape)
        busy = (masks > 0) & (size_bytes > 0)
        sizes, which = size_bytes[busy], masks[busy]
        above = np.clip(np.searchsorted(SAMPLES, sizes), 1, len(SAMPLES) - 1)
        curves = self._curves(collective, which, above)
        low, high = curves[which, above - 1], curves[which, above]
        far = np.minimum(sizes, SAMPLES[-1]) - SAMPLES[above - 1]
        far /= SAMPLES[above] - SAMPLES[above - 1]
        with np.errstate(invalid="ignore"):  # forever less forever
            between = low + far * (high - low)
        found[busy] = np.where(np.isinf(high), np.inf, between)
        return found

    def seconds(self, collective: str, mask: int, size_bytes: float) -> float:
        """What ``of_masks`` has of one."""
        if not mask or not size_bytes > 0:
            return 0.0
        above = min(max(bisect_left(_SAMPLES, size_bytes), 1), len(_SAMPLES) - 1)
        key = collective, mask, above
        if key not in self._ends:
            curves = self._curves(collective, np.array([mask]), np.array([above]))
            self._ends[key] = float(curves[mask, above - 1]), float(curves[mask, above])
        low_s, high_s = self._ends[key]
        if high_s == math.inf:
            return high_s
        first, last = _SAMPLES[above - 1], _SAMPLES[above]
        far = (min(size_bytes, _SAMPLES[-1]) - first) / (last - first)
        return low_s + far * (high_s - low_s)

    def _curves(self, collective: str, masks: Ints, above: Ints) -> Floats:
        """By mask and sample, seconds: of those that are asked for, and of others what is known."""
        if collective not in self._known:
            self._known[collective] = np.full((1 << self.levels, len(SAMPLES)), np.nan)
        curves = self._known[collective]
        for samples in (above - 1, above):
            new = np.isnan(curves[masks, samples])
            for mask, sample in set(zip(masks[new].tolist(), samples[new].tolist(), strict=True)):
                size_bytes = float(SAMPLES[max(sample, 1)])
                curves[mask, sample] = self._timed(collective, mask, size_bytes)
        return curves

    def _timed(self, collective: str, mask: int, size_bytes: float) -> float:
        by = "auto" if collective == "all-to-all" else self.algorithm
        try:
            found = offer(self.wires, collective, self._members(mask), size_bytes, by)
        except CollectiveError:  # an algorithm that was asked for does not apply
            return np.inf
        rounding = 2 * found.phases  # up, of bytes and of latency in each phase
        return max(0, found.alone_ps - rounding) / PICOSECONDS

    def _members(self, mask: int) -> Groups:
        if mask not in self._groups:
            self._groups[mask] = members_of(self.wires, self.groups(mask))
        return self._groups[mask]

    def groups(self, mask: int) -> Lattice:
        """The groups over the levels of a mask."""
        strides = [1 << i for i in range(self.levels)]
        return Lattice(
            self.first,
            tuple(stride for stride in strides if mask & stride),
            tuple(stride for stride in strides if not mask & stride),
        )


MOST_KEPT = 64
_KEPT: dict[tuple[bytes, int, int, str], Curves] = {}
