"""How much two collectives that go on at once hold each other up, on the links that both need."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from simulator.collectives.choice import offer
from simulator.planning.curves import Curves, Floats

TYPICAL_BYTES = float(1 << 22)
"""At which the way of a collective is looked at."""

Way = tuple[str, int]
"""A collective and the mask of its groups (``Curves``)."""


@dataclass(slots=True)
class Contention:
    """What the collectives of like cores do to each other, found when asked for.

    A link is busy for some part of the time that a collective moves bytes: in
    an all-reduce over two tiers those of the inner one perhaps a third of it,
    those of the outer one the rest. Two that go on at once are slowed by the
    link that both need most: if the other works on the inner links alone, that is
    1/3 of the first one's time, and every byte takes 4/3 as long.
    """

    curves: Curves
    _busy: dict[Way, Floats] = field(default_factory=dict)
    _shared: dict[tuple[Way, Way], float] = field(default_factory=dict)
    _idle_s: dict[Way, float] = field(default_factory=dict)

    def shared(self, one: Way, other: Way) -> float:
        """Which part of the time each keeps the other from its links, 0 to 1."""
        key = (one, other) if one <= other else (other, one)
        if key not in self._shared:
            both = np.minimum(self._of(key[0]), self._of(key[1]))
            self._shared[key] = float(both.max(initial=0.0))
        return self._shared[key]

    def idle_s(self, way: Way) -> float:
        """Seconds of its latencies, in which it holds no link."""
        if way not in self._idle_s:
            collective, mask = way
            self._idle_s[way] = self.curves.seconds(collective, mask, 1.0)
        return self._idle_s[way]

    def _of(self, way: Way) -> Floats:
        """By link, for which part of a collective's bytes it is busy."""
        if way not in self._busy:
            collective, mask = way
            curves = self.curves
            bandwidth = curves.wires.bandwidth
            by = "auto" if collective == "all-to-all" else curves.algorithm
            found = np.zeros(len(bandwidth))
            whole_s = 0.0
            groups = curves.groups(mask)
            for job in offer(curves.wires, collective, groups, TYPICAL_BYTES, by).jobs():
                load = job.load.everywhere()
                each_s = load.flows * job.flow_bytes / bandwidth[load.links]
                found[load.links] += each_s
                whole_s += float(each_s.max(initial=0.0))
            self._busy[way] = found / whole_s if whole_s else found
        return self._busy[way]
