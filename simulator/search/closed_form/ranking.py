"""Which of many layouts are fastest by the first pass, without an estimate of each.

Two things are used that remove none of the fastest:

- What computes more again takes longer, and is tried only where less does not fit in memory.
- A step takes at least what its micro-batches take through all pieces, divided by the stages.
  Larger micro-batches, more computed again and more parts of tp and cp save none of the devices'
  time. So layouts are left out where this bound is above the slowest estimate asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from heapq import heappush, heapreplace
from math import inf

from planners import Axes, PlanError
from simulator.search.closed_form.first_pass import FirstPass
from simulator.search.closed_form.network_on_array import Estimate, Layout

MODES = ("none", "selective", "number", "full")


class Ranking:
    """The ``most`` fastest layouts that fit, and others that were estimated.

    They may fill the share ``room`` of devices' memory.
    """

    def __init__(self, first_pass: FirstPass, most: int, room: float) -> None:
        self._pass, self._most, self._room = first_pass, most, room
        self._worth: list[float] = []
        """Of the fastest so far their times, negative, as a heap."""
        self._least: dict[Axes, dict[int, float]] = {}
        """Of splits what a micro-batch of each size takes, times the devices, for a sample."""
        self.fitting: dict[Layout, Estimate] = {}
        self.too_large = 0
        """Layouts that do not fit, of those that were estimated."""
        self.unknown: list[Layout] = []
        """Layouts without a closed form."""

    def add(self, split: Axes, layouts: Iterable[Layout]) -> None:
        """Estimate layouts of one tp, sp, cp and ep, from small micro-batches on."""
        sizes = defaultdict[int, dict[Hashable, list[Layout]]](dict)
        for one in layouts:
            but_recompute = one.axes, one.update, one.schedule, one.firsts
            sizes[one.micro_batch].setdefault(but_recompute, []).append(one)
        for size, alike in sorted(sizes.items()):
            for modes in alike.values():
                if self._bound_s(split, size) >= self._worst_s:
                    break
                self._lightest(sorted(modes, key=lambda one: weight(one.recompute)))
                if size not in self._least.get(split, {}) and not self.unknown:
                    first = modes[0]
                    # a number is of some blocks; in a table of it all would compute again
                    again = "none" if first.recompute.isdecimal() else first.recompute
                    table, *_ = self._pass.tables(first.axes, size, again)
                    ways = split.tp * split.cp
                    self._least.setdefault(split, {})[size] = table.seconds * ways / size

    def _bound_s(self, split: Axes, size: int) -> float:
        """What a step takes at least, by what splits into fewer parts take."""
        least = 0.0
        for one, sizes in self._least.items():
            fewer = one.ep == split.ep and not (split.tp % one.tp or split.cp % one.cp)
            if fewer and (one.sp == split.sp or one.tp == 1):
                below = (each * other / size for other, each in sizes.items() if other <= size)
                least = max(least, *below, 0.0)
        return self._pass.batch * least / self._pass.array.group.size

    def _lightest(self, modes: Iterable[Layout]) -> None:
        """Keep what computes least again of what fits."""
        for one in modes:
            try:
                found = self._pass.estimate(one, self._room)
            except PlanError:
                self.unknown.append(one)
                return
            if found.seconds < inf:
                self._keep(one, found)
                return
            self.too_large += 1

    @property
    def _worst_s(self) -> float:
        return -self._worth[0] if len(self._worth) == self._most else inf

    def _keep(self, layout: Layout, found: Estimate) -> None:
        self.fitting[layout] = found
        if len(self._worth) < self._most:
            heappush(self._worth, -found.seconds)
        elif found.seconds < self._worst_s:
            heapreplace(self._worth, -found.seconds)


def weight(recompute: str) -> tuple[int, int]:
    """By how much is computed again."""
    number = recompute.isdecimal()
    return MODES.index("number" if number else recompute), int(recompute) if number else 0
