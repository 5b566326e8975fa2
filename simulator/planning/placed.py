"""The search's own plans for one kind of device: layouts of some of its cores, all others idle.

What the estimate likes best (``subsets``) is simulated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from heapq import nsmallest
from itertools import islice

from hardware import Device
from planners import Plan
from simulator.planning.buckets import sizes_of
from simulator.planning.judge import Judge
from simulator.planning.lifting import alone, leaves_of, powers_of_two, whole
from simulator.planning.local import Judged, Picks, improve
from simulator.planning.outdone import outdoes
from simulator.planning.placements import Placement
from simulator.planning.subsets import (
    ESTIMATED_NODES,
    FAR,
    FEW_CORES,
    MOST_LAYOUTS,
    Layout,
    Subset,
    subset_of,
)
from simulator.planning.work_bound import work_bound_s

NEAR = 1.05
"""Layouts are simulated whose estimate is at most so many times that of the best."""
MOST_SIMULATED, MOST_IMPROVED = 3, 3
"""Layouts of one subset, and subsets whose best layouts are improved."""
WORTH = 4 / 3
"""Layouts are refined that should take at most so many times as long as the best: a quarter is
gained at times (AlexNet on 1,024 cores), more was not seen."""
ALIKE = 1.01
"""Other buckets are gone into with which a layout should take at most so many times as long."""
ROUNDS = 2
"""Of states nearby, each time around the best layout so far."""
LINES = 2_500
"""What improving one may simulate: about half a second."""

_Found = tuple[float, Layout, Subset]
"""A layout, with what it takes or should take."""


@dataclass(slots=True)
class Placing:
    """One run, of a judge; plans are made ``like`` another one, of its batch.

    Bytes that a core holds cost ``byte_s`` seconds each.
    """

    judge: Judge
    like: Plan
    byte_s: float = 0.0
    _few: dict[tuple[Device, int], list[_Found]] = field(default_factory=dict, init=False)

    def few(self) -> None:
        """Judge the layout of a few cores that should be best, of the kind that is fastest.

        It takes little time, and what is found rules out much of what takes more.
        """
        few = (one for one in self._ranked() if one[2] <= FEW_CORES)
        for _, device, size in islice(few, 1):
            found = self._few[device, size] = self._estimated(device, size, math.inf)
            for _, picks, subset in found[:1]:
                self._judged(subset, picks)

    def subsets(self) -> None:
        """Judge layouts of the first cores of one kind, all other devices idle, and improve them.

        A number of cores is left out where what it computes and sums up alone
        takes longer than the best estimate so far.
        """
        judge = self.judge
        found = self._likely()
        best_s = min([judge.best_s, *(one[0] for one in found[:1])])
        for seconds, picks, subset in found:
            if judge.execution.strict_memory or seconds <= NEAR * best_s:
                self._judged(subset, picks)
        firsts = {id(one[2]): one for one in reversed(found) if one[0] <= FAR * best_s}
        # by what is near: a small network's best layout may take an eighth less than the first
        ranked = nsmallest(MOST_IMPROVED, firsts.values(), _near_s)
        better = [self._better(picks, subset) for _, picks, subset in ranked]
        better.sort(key=lambda one: one[0])
        better = [self._refined(*one) if self._is_worth(*one[1:]) else one for one in better]
        tried = [
            (*self._improved(subset, picks), subset)
            for seconds, picks, subset in better
            if seconds <= NEAR * judge.best_s
        ]
        for _, picks, subset in nsmallest(1, tried, lambda one: one[0]):
            self._with_other_buckets(subset, picks)

    def _likely(self) -> list[_Found]:
        """The likely best layouts of every number of cores, the best first, by estimate.

        Few cores, which take little time, come first where something is known that is better
        than most of them: any that is better still rules many others out.
        """
        best_s, found, ranked = self.judge.best_s, list[_Found](), self._ranked()
        if best_s < math.inf:
            ranked.sort(key=lambda one: one[2] > FEW_CORES)
        for work_s, device, size in ranked:
            if work_s < best_s:
                mine = self._estimated(device, size, best_s)
                found += mine
                best_s = min([best_s, *(one[0] for one in mine[:1])])
        return sorted(found, key=lambda one: one[0])

    def _estimated(self, device: Device, size: int, best_s: float) -> list[_Found]:
        """The likely best layouts of so many cores; none where they take too long."""
        if (device, size) in self._few:
            return self._few[device, size]
        subset = subset_of(self.judge, device, size, self.like.batch, self.byte_s, best_s)
        sure = not self.judge.execution.strict_memory  # else what fits counts
        if subset is None or (sure and subset.least_s(FAR * best_s) > FAR * best_s):
            return []
        layouts_ = subset.estimated()
        return [(*one, subset) for one in layouts_[: _most(len(layouts_))]]

    def _ranked(self) -> list[tuple[float, Device, int]]:
        """Numbers of cores of each kind, those first that do the step's work in the least time.

        None of a kind where as many are there of one that outdoes it.
        """
        judge, found = self.judge, list[tuple[float, Device, int]]()
        most = [(one, leaves_of(judge.array.group, one)) for one, _ in judge.array.group.kinds]
        for device, size in (*whole(judge.array), *powers_of_two(judge.array)):
            part = alone(judge.array, device, size)
            outdone = any(many >= size and outdoes(one, device) for one, many in most)
            if part is not None and not outdone:
                work_s = work_bound_s(judge.network, part, self.like.batch, judge.execution)
                found.append((work_s, device, size))
        return sorted(found, key=lambda one: one[0])

    def _judged(self, subset: Subset, picks: Layout, bucket_bytes: float | None = None) -> float:
        kinds = range(len(self.judge.array.group.kinds))
        pieces = tuple(subset.piece(picks) if kind == subset.kind else None for kind in kinds)
        weights = tuple(float(kind == subset.kind) for kind in kinds)
        like = replace(self.like, bucket_bytes=bucket_bytes)
        return self.judge.seconds(Placement(pieces, weights).plan(self.judge.array, like))

    def _better(self, picks: Layout, subset: Subset) -> _Found:
        """What a layout takes that is better by estimate, or the layout itself."""
        both = picks, subset.better(picks)
        return (*min((self._judged(subset, one), one) for one in both), subset)

    def _is_worth(self, picks: Layout, subset: Subset) -> bool:
        """Whether refining may lead to the best."""
        best_s = self.judge.best_s
        return subset.schedule.seconds(picks) <= WORTH * best_s and subset.least_s(best_s) < best_s

    def _refined(self, seconds: float, picks: Layout, subset: Subset) -> _Found:
        """One of states nearby, if it takes less."""
        best: _Found = seconds, picks, subset
        for _ in range(ROUNDS):
            near, found = best[2].refined(best[1])
            refined_s = self._judged(near, found)
            if refined_s >= best[0]:
                break
            best = refined_s, found, near
        return best

    def _improved(self, subset: Subset, picks: Layout) -> tuple[float, Layout]:
        """What the estimate likes better still, as far as simulation agrees, and what it takes."""
        kind, judge = subset.kind, self.judge

        def judgement(one: Picks) -> float:
            return self._judged(subset, one[kind])

        simulated = Judged(judgement, lambda: judge.spent, judge.spent + LINES)
        chains = {kind: subset.loose}
        found = improve({kind: picks}, chains, simulated, subset.judged())[kind]
        return self._judged(subset, found), found

    def _with_other_buckets(self, subset: Subset, picks: Layout) -> None:
        """The layout, and what is better by estimate, with buckets of other sizes."""
        usual_s = subset.schedule.seconds(picks)
        for size in sizes_of(self.judge.execution):
            if subset.schedule.seconds(picks, size) <= ALIKE * usual_s:
                better = subset.improved(picks, subset.judged(ESTIMATED_NODES // 8, size))
                self._judged(subset, picks, size)
                self._judged(subset, better, size)


def _near_s(one: _Found) -> float:
    """What is near it should take."""
    _, picks, subset = one
    return subset.schedule.seconds(subset.better(picks))


def _most(many: int) -> int:
    """How many of a subset's layouts are simulated: all near ones where all were estimated."""
    return many if many > 2 * MOST_LAYOUTS else MOST_SIMULATED
