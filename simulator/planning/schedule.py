"""What a whole layout should take, in milliseconds of planning: a core's step, line by line.

The chain's sum is a bound: whatever can be hidden is, and nobody waits for a
link. Here one core works through its products in order, each behind what it
reads, while exchanges go on, and gradients beside them in their buckets. Two at
once on the same links slow each other (``contention``).

Forward it takes the sum of its ``legs``. Each is gone through once for the states of its
nodes; blocks that repeat share what was found.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Sequence

from simulator.planning.contention import Contention
from simulator.planning.legs import legs_of
from simulator.planning.lines import Line, run
from simulator.planning.lookup import Lookup
from simulator.planning.script import Script
from simulator.planning.tables import Tables

Picks = tuple[int, ...]
"""The numbers of nodes' states."""


class Schedule:
    """Steps of layouts of one network on like cores, by the numbers of their nodes' states."""

    def __init__(self, tables: Tables) -> None:
        self.lookup = Lookup(tables)
        self._contention = Contention(tables.curves)
        self._estimated = 0
        self._known: dict[tuple[Picks, float], float] = {}
        self._legs = legs_of(tables.graph)
        alike = defaultdict[Hashable, dict[Picks, float]](dict)
        self._ahead_s = [alike[self._sort(leg)] for leg in self._legs]
        """What each takes forward, by its states, as far as that was asked for."""

    @property
    def spent(self) -> int:
        """Nodes of all layouts that were estimated, and what took as long."""
        return self._estimated + self.lookup.costs.spent

    def seconds(self, picks: Sequence[int], bucket_bytes: float | None = None) -> float:
        """What the first core's step takes, about; with buckets as the tables', or of this size.

        Found once; what is asked for again counts as often.
        """
        self._estimated += len(picks)
        full = self.lookup.tables.bucket_bytes if bucket_bytes is None else bucket_bytes
        key = tuple(picks), full
        if key not in self._known:
            self._known[key] = self._forward_s(key[0]) + self._rest_s(*key)
        return self._known[key]

    def _forward_s(self, picks: Picks) -> float:
        """Of all legs."""
        total_s = 0.0
        for leg, known in zip(self._legs, self._ahead_s, strict=True):
            states = picks[max(leg.start - 1, 0) : leg.stop]
            if states not in known:
                known[states] = self._run(Script(self.lookup, picks).ahead(leg))
            total_s += known[states]
        return total_s

    def _rest_s(self, picks: Picks, full_bytes: float) -> float:
        """What comes behind the last leg: the way back, most often."""
        start = self._legs[-1].stop if self._legs else 0
        return self._run(Script(self.lookup, picks, full_bytes).write(start))

    def _run(self, lines: Sequence[Line]) -> float:
        """Forever if one of them is of what does not apply."""
        never = any(line.seconds == math.inf for line in lines)
        return math.inf if never else run(lines, self._contention)

    def _sort(self, leg: range) -> Hashable:
        """Equal where the same states take as long."""
        lookup, first = self.lookup, max(leg.start - 1, 0)
        lists = [id(lookup.costs.nodes[v]) for v in range(first, leg.stop)]
        inputs = [
            (v - first, one.edge, one.producer - first, lookup.tables.whole_bytes(one.edge, v))
            for v in leg
            for one in lookup.inputs[v]
        ]
        return tuple(lists), tuple(inputs)
