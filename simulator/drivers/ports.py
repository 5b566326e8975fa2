"""The links of a run: the array's own, some of them slowed, and two for each parameter server."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hardware import Wires
from simulator.drivers.errors import TrainingError
from simulator.engine.jobs import Floats, Load
from simulator.engine.links import EveryLink

SHOWN = 6
"""Link names that a message about an unknown one has."""


class Ports:
    """Links behind the wires' own: every server has one into it and one out of it.

    ``of`` has each server's bandwidth (B/s) and latency (s).
    """

    def __init__(self, wires: Wires, of: Sequence[tuple[float, float]]) -> None:
        self._wires = wires
        self._first = len(wires.bandwidth)
        widths = [width for width, _ in of for _ in range(2)]
        self._bandwidth = np.concatenate([wires.bandwidth, widths])
        self._names = [f"server {s} {way}" for s in range(len(of)) for way in ("in", "out")]
        self.latency_s = [latency for _, latency in of]

    @property
    def names(self) -> tuple[str, ...]:
        """Of every link, servers' last."""
        return (*self._wires.names, *self._names)

    def slowed(self, links: Sequence[tuple[str, float]]) -> Floats:
        """The bandwidth of every link, those named so many times slower; raises TrainingError."""
        bandwidth = self._bandwidth.copy()
        for name, times in links:
            if name not in self.names:
                some = ", ".join(self.names[:SHOWN])
                raise TrainingError(f"slowdown link:{name}: no such link; they are {some}, …")
            bandwidth[self.names.index(name)] /= times
        return bandwidth

    def links(self, bandwidth: Floats) -> EveryLink:
        """All of them, as a program follows them."""
        return EveryLink(bandwidth)

    def through(self, flows: Floats, server: int, many: int, *, inwards: bool) -> Load:
        """So many flows that cross these of the wires, and a server's port."""
        everywhere = np.zeros(len(self._bandwidth))
        everywhere[: self._first] = flows
        everywhere[self._first + 2 * server + (not inwards)] = many
        return Load.of(everywhere)
