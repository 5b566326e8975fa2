"""Which of many layouts are fastest by the first pass, without an estimate of each.

Three things are used that remove none of the fastest:

- What computes more again takes longer, and is tried only where less does not fit in memory.
- Larger micro-batches hold more. Where the smaller ones do not fit in any way, they do not.
- A step takes at least what its micro-batches take through all pieces, divided by the stages.
  Larger micro-batches, more computed again and more parts of tp and cp save none of the devices'
  time. So layouts are left out where this bound is above the slowest estimate asked for.

Stages of other sizes than the usual, and other schedules, are tried only where the usual are
NEAR that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from heapq import heappush, heapreplace
from math import inf

from planners import Axes, PlanError
from simulator.search.closed_form.first_pass import FirstPass
from simulator.search.closed_form.network_on_array import Estimate, Layout

NEAR = 1.25
"""How much slower than the slowest that is asked for the usual stages and schedule may be, where
others are tried."""
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
        full = set[tuple[Axes, str]]()
        sizes: dict[int, dict[tuple[Axes, str], list[Layout]]] = {}
        for one in layouts:
            alike = sizes.setdefault(one.micro_batch, {})
            alike.setdefault((one.axes, one.update), []).append(one)
        for size, alike in sorted(sizes.items()):
            for key, some in alike.items():
                if key in full or self._bound_s(split, size) >= self._worst_s:
                    continue
                if not self._usual_first(some):
                    full.add(key)
                if size not in self._least.get(split, {}) and not self.unknown:
                    seconds = self._pass.table(key[0], 0, size, some[0].recompute).seconds
                    ways = split.tp * split.cp
                    self._least.setdefault(split, {})[size] = seconds * ways / size

    def _bound_s(self, split: Axes, size: int) -> float:
        """What a step takes at least, by what splits into fewer parts take."""
        least = 0.0
        for one, sizes in self._least.items():
            fewer = one.ep == split.ep and not (split.tp % one.tp or split.cp % one.cp)
            if fewer and (one.sp == split.sp or one.tp == 1):
                below = (each * other / size for other, each in sizes.items() if other <= size)
                least = max(least, *below, 0.0)
        return self._pass.batch * least / self._pass.array.group.size

    def _usual_first(self, layouts: Iterable[Layout]) -> bool:
        """Estimate layouts that differ in stages and schedule; False where the usual do not fit.

        Others than the usual are tried where that is nearly fast enough.
        """
        sorts: dict[tuple[str, tuple[int, ...]], list[Layout]] = {}
        for layout in layouts:
            sorts.setdefault((layout.schedule, layout.firsts), []).append(layout)
        usual, *others = (
            sorted(one, key=lambda each: weight(each.recompute)) for one in sorts.values()
        )
        found = self._lightest(usual)
        if found is None:
            return False
        for modes in others if found.seconds < NEAR * self._worst_s else ():
            self._lightest(modes)
        return True

    def _lightest(self, modes: Sequence[Layout]) -> Estimate | None:
        """Keep what computes least again of what fits; None where nothing fits."""
        for one in modes:
            try:
                found = self._pass.estimate(one, self._room)
            except PlanError:
                self.unknown.append(one)
                return Estimate(0.0, 0.0, 0.0, 0.0)
            if found.seconds < inf:
                self._keep(one, found)
                return found
            self.too_large += 1
            if found.held_share > self._room:
                break  # whatever is computed again
        return None

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
