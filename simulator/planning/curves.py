"""Seconds of collectives among like cores by size: sampled once, read for thousands of sizes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hardware import Wires
from simulator.collectives.algorithms import CollectiveError
from simulator.collectives.choice import offer
from simulator.collectives.kept import Token, speeds
from simulator.collectives.lattice import Lattice
from simulator.engine.picoseconds import PICOSECONDS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SAMPLES = np.array([0.0, 1.0, *(4.0**i for i in range(4, 20)), 4.0**24])
"""Bytes at which collectives are timed. A way's time is concave in its size, so that lines
between two samples lie below it."""


def curves_of(wires: Wires, first: int, levels: int, algorithm: str) -> Curves:
    """The curves of such cores, shared by all networks as long as they are among the last few."""
    key = speeds(wires), first, levels, algorithm
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
    _known: dict[tuple[str, int], Floats] = field(default_factory=dict)

    def seconds(self, collective: str, mask: int, size_bytes: Floats) -> Floats:
        """What a collective of each size takes at least; nothing where there is no group."""
        if not mask:
            return np.zeros_like(size_bytes)
        timed = np.interp(size_bytes, SAMPLES, self._curve(collective, mask))
        found: Floats = np.where(size_bytes > 0, timed, 0.0)
        return found

    def of_masks(self, collective: str, masks: Ints, size_bytes: Floats) -> Floats:
        """The same where every size has a mask of its own."""
        order = np.argsort(masks, axis=None, kind="stable")
        ranked, sizes = masks.ravel()[order], size_bytes.ravel()[order]
        starts = np.flatnonzero(np.diff(ranked, prepend=-1)).tolist()
        found = np.empty(size_bytes.size)
        for start, end in zip(starts, [*starts[1:], len(ranked)], strict=True):
            mask = int(ranked[start])
            found[order[start:end]] = self.seconds(collective, mask, sizes[start:end])
        return found.reshape(size_bytes.shape)

    def _curve(self, collective: str, mask: int) -> Floats:
        key = (collective, mask)
        if key not in self._known:
            groups = self._groups(mask)
            by = "auto" if collective == "all-to-all" else self.algorithm
            timed = list[float]()
            for size in SAMPLES[1:].tolist():
                try:
                    found = offer(self.wires, collective, groups, size, by)
                except CollectiveError:  # an algorithm that was asked for does not apply
                    timed.append(np.inf)
                    continue
                rounding = 2 * len(found.sequence)  # up, of bytes and of latency in each phase
                timed.append(max(0, found.alone_ps - rounding) / PICOSECONDS)
            self._known[key] = np.array([timed[0], *timed])
        return self._known[key]

    def _groups(self, mask: int) -> Lattice:
        strides = [1 << i for i in range(self.levels)]
        return Lattice(
            self.first,
            tuple(stride for stride in strides if mask & stride),
            tuple(stride for stride in strides if not mask & stride),
        )


MOST_KEPT = 64
_KEPT: dict[tuple[Token, int, int, str], Curves] = {}
