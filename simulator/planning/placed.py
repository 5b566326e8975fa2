"""The search's own plans: layouts of subsets of a kind, or of all kinds, and improved ones.

Layouts are compared by an estimate (``schedule``), which takes a fiftieth of the
time that lowering and simulating one does. What it likes best is simulated.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import islice, product

from hardware import Device
from planners import Objective, Plan
from simulator.planning.buckets import sizes_of
from simulator.planning.candidates import proportions
from simulator.planning.chain import Chain
from simulator.planning.judge import Judge
from simulator.planning.layouts import first_cores, layouts, tables_of
from simulator.planning.lifting import alone, leaves_of, powers_of_two, whole
from simulator.planning.local import Judged, Picks, improve
from simulator.planning.placements import Piece, Placement, blank
from simulator.planning.schedule import Schedule
from simulator.planning.states import MANY_LEVELS, Types
from simulator.planning.tables import Tables
from simulator.planning.work_bound import work_bound_s
from workloads import partition_graph

MOST_LAYOUTS = 8
"""Of a subset that are estimated."""
ALL_LAYOUTS = 3**6
"""Up to so many are all estimated: six choices of a type, as of two nodes at three levels."""
FEW_CORES = 8
"""Up to which layouts may leave cores without some nodes: with more, that is not worth a look."""
NEAR, FAR = 1.05, 1.2
"""Layouts are simulated, and improved, whose estimate is at most so many times that of the best."""
MOST_SIMULATED, MOST_IMPROVED = 3, 3
"""Layouts of one subset, and subsets whose best layouts are improved."""
ESTIMATED_NODES, LINES = 20_000, 2_500
"""What improving one may estimate, and simulate: about half a second each."""
MOST_ROUNDS, ENOUGH = 3, 0.995
"""Times that states near a layout's are looked at, as long as a step takes so many times less."""
BYTE_PRICES = (0.1, 0.4, 1.6, 6.4, 25.6)
"""Of a core's whole memory, in the seconds of a step, tried in turn where a plan must fit."""


@dataclass(frozen=True, slots=True, eq=False)
class _Subset:
    """The first cores of a kind, all others idle: their costs, and its likely best layouts."""

    device: Device
    size: int
    kind: int
    chain: Chain
    schedule: Schedule
    loose: Chain
    """With layouts that leave cores without some nodes, where there are few cores."""

    def hollow(self, picks: Sequence[int]) -> bool:
        """Whether cores are left without some nodes: estimates are too low then."""
        pairs = zip(self.chain.nodes, picks, strict=True)
        return any(costs.hollow[pick] for costs, pick in pairs)

    def types(self, picks: Sequence[int]) -> tuple[Types, ...]:
        """Of every node, outermost first."""
        pairs = zip(self.chain.nodes, picks, strict=True)
        return tuple(costs.states.at(pick) for costs, pick in pairs)

    def number(self, types: Sequence[Types]) -> tuple[int, ...]:
        """The layout with these types."""
        pairs = zip(self.chain.nodes, types, strict=True)
        return tuple(costs.states.numbers[of_node] for costs, of_node in pairs)

    def judged(self, most_nodes: int, bucket_bytes: float | None = None) -> Judged:
        """Estimates of so many nodes together, with buckets of a size (None: the usual)."""
        schedule = self.schedule

        def judgement(one: Picks) -> float:
            return schedule.seconds(one[self.kind], bucket_bytes)

        return Judged(judgement, lambda: schedule.spent, schedule.spent + most_nodes)

    def estimated(self) -> list[tuple[float, tuple[int, ...]]]:
        """Layouts with what they should take, the best first."""
        found = [
            (self.schedule.seconds(picks), picks)
            for chain in dict.fromkeys((self.chain, self.loose))
            for picks in _candidates(chain)
        ]
        return sorted(dict.fromkeys(found))


_Layout = tuple[float, tuple[int, ...], _Subset]
"""What it takes, and of which cores."""


@dataclass(slots=True)
class _Placing:
    """One run, of a judge and a batch; plans are made ``like`` another one."""

    judge: Judge
    batch: int
    like: Plan

    def subsets(self, byte_s: float = 0.0) -> None:
        """Judge layouts of the first cores of one kind, all other devices idle, and improve them.

        A number of cores is left out where what it computes and sums up alone
        takes longer than the best estimate so far.
        """
        judge, found = self.judge, list[_Layout]()
        best_s = judge.best_s
        for device, size in self._ranked():
            if (subset := self._subset(device, size, byte_s, best_s)) is not None:
                layouts_ = subset.estimated()
                found += ((*one, subset) for one in layouts_[: self._most(layouts_)])
                sure = (seconds for seconds, picks in layouts_ if not subset.hollow(picks))
                best_s = min(best_s, next(sure, best_s))
        found.sort(key=lambda one: one[0])
        for seconds, picks, subset in found:
            unsure = judge.execution.strict_memory or subset.hollow(picks)
            if unsure or seconds <= NEAR * best_s:
                self._judged(subset, picks)
        firsts = {id(one[2]): one for one in reversed(found) if one[0] <= FAR * best_s}
        ranked = nsmallest(MOST_IMPROVED, firsts.values(), lambda one: one[0])
        better = [(*self._estimated(subset, picks), subset) for _, picks, subset in ranked]
        better.sort(key=lambda one: one[0])
        better[:1] = [self._refined(*one) for one in better[:1]]
        tried = [
            (*self._improve(subset, picks), subset)
            for seconds, picks, subset in better
            if seconds <= NEAR * judge.best_s
        ]
        for _, picks, subset in nsmallest(1, tried, lambda one: one[0]):
            self._with_other_buckets(subset, picks)

    def _most(self, layouts_: Sequence[tuple[float, tuple[int, ...]]]) -> int:
        """How many of a subset's layouts are simulated: all near ones where all were estimated."""
        return len(layouts_) if len(layouts_) > 2 * MOST_LAYOUTS else MOST_SIMULATED

    def _ranked(self) -> list[tuple[Device, int]]:
        """Numbers of cores of each kind, those that do the step's work fastest first."""
        judge = self.judge

        def work_s(one: tuple[Device, int]) -> float:
            part = alone(judge.array, *one)
            step = (judge.network, part, self.batch, judge.execution)
            return math.inf if part is None else work_bound_s(*step)

        return sorted((*whole(judge.array), *powers_of_two(judge.array)), key=work_s)

    def _subset(
        self, device: Device, size: int, byte_s: float, enough_s: float
    ) -> _Subset | None:
        """So many cores, unless they surely take ``enough_s`` without any re-laid tensor."""
        kinds = [kind for kind, _ in self.judge.array.group.kinds]
        chain = self._chain(device, size, self.batch, byte_s)
        if chain is None or chain.tables.products_s >= enough_s:
            return None
        loose = Chain(chain.tables, byte_s=byte_s) if size <= FEW_CORES else chain
        if loose.floor_s() >= enough_s:
            return None
        schedule = Schedule(chain.tables)
        return _Subset(device, size, kinds.index(device), chain, schedule, loose)

    def _with_other_buckets(self, subset: _Subset, picks: tuple[int, ...]) -> None:
        """The layout, and what is better by estimate, with buckets of other sizes."""
        kind = subset.kind
        for size in sizes_of(self.judge.execution):
            judged = subset.judged(ESTIMATED_NODES // 4, size)
            found = improve({kind: picks}, {kind: subset.loose}, judged)
            for one in (picks, found[kind]):
                if subset.schedule.seconds(one, size) <= NEAR * self.judge.best_s:
                    self._judged(subset, one, size)

    def _judged(
        self, subset: _Subset, picks: Sequence[int], bucket_bytes: float | None = None
    ) -> float:
        kinds = [device for device, _ in self.judge.array.group.kinds]
        piece = _piece(subset.device, subset.size, subset.chain, picks)
        pieces = tuple(piece if kind == subset.kind else None for kind in range(len(kinds)))
        weights = tuple(float(kind == subset.kind) for kind in range(len(kinds)))
        like = replace(self.like, bucket_bytes=bucket_bytes)
        return self.judge.seconds(Placement(pieces, weights).plan(self.judge.array, like))

    def _estimated(self, subset: _Subset, picks: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
        """What a layout takes that is better by estimate, or the layout itself."""
        kind, start = subset.kind, {subset.kind: picks}
        found = improve(start, {kind: subset.loose}, subset.judged(ESTIMATED_NODES))
        return min((self._judged(subset, one), one) for one in (picks, found[kind]))

    def _improve(self, subset: _Subset, picks: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
        """What the estimate likes better still, as far as simulation agrees, and what it takes."""
        kind, judge = subset.kind, self.judge

        def judgement(one: Picks) -> float:
            return self._judged(subset, one[kind])

        simulated = Judged(judgement, lambda: judge.spent, judge.spent + LINES)
        estimated = subset.judged(ESTIMATED_NODES)
        found = improve({kind: picks}, {kind: subset.loose}, simulated, estimated)[kind]
        return self._judged(subset, found), found

    def _refined(self, seconds: float, picks: tuple[int, ...], subset: _Subset) -> _Layout:
        """The same with states near those of the layout, again as long as that helps."""
        if subset.chain.tables.cores.levels <= MANY_LEVELS:
            return seconds, picks, subset
        for _ in range(MOST_ROUNDS):
            before_s, near = seconds, self._near(subset, picks)
            start = near.number(subset.types(picks))
            likely = min((near.schedule.seconds(start), start), *near.estimated())
            seconds, picks, subset = *self._estimated(near, likely[1]), near
            if seconds > ENOUGH * before_s:
                break
        return seconds, picks, subset

    def _near(self, subset: _Subset, picks: tuple[int, ...]) -> _Subset:
        chain = subset.chain
        tables = Tables(
            self.judge.network,
            chain.tables.batch,
            chain.tables.cores,
            self.judge.execution,
            near=subset.types(picks),
        )
        chain = Chain(tables, filled=True, byte_s=chain.byte_s)
        return replace(subset, chain=chain, schedule=Schedule(tables), loose=chain)

    def together(self, weights: Sequence[float], byte_s: float = 0.0) -> None:
        """All cores of every kind, each kind with its share of the samples."""
        judge, total = self.judge, sum(weights)
        kinds = judge.array.group.kinds
        chains, picks = dict[int, Chain](), Picks()
        for kind, ((device, _), weight) in enumerate(zip(kinds, weights, strict=True)):
            samples = max(1, round(self.batch * weight / total))
            size = leaves_of(judge.array.group, device)
            chain = self._chain(device, size, samples, byte_s)
            if chain is None or chain.floor_s() >= judge.best_s:
                return
            chains[kind], picks[kind] = chain, next(iter(layouts(chain)))

        def judgement(one: Picks) -> float:
            pieces = [
                _piece(device, leaves_of(judge.array.group, device), chains[kind], one[kind])
                for kind, (device, _) in enumerate(kinds)
            ]
            placement = Placement(tuple(pieces), tuple(weights))
            return judge.seconds(placement.plan(judge.array, self.like))

        if judgement(picks) <= NEAR * judge.best_s:
            simulated = Judged(judgement, lambda: judge.spent, judge.spent + LINES)
            improve(picks, chains, simulated)

    def _chain(self, device: Device, size: int, samples: int, byte_s: float) -> Chain | None:
        judge = self.judge
        cores = first_cores(judge.array, device, size)
        if cores is None:
            return None
        tables = tables_of(judge.network, samples, cores, judge.execution)
        return Chain(tables, filled=True, byte_s=byte_s)


def best_placed(judge: Judge, batch: int, objective: Objective) -> None:
    """Judge layouts of every subset, and of all kinds together, then what can be made of the best.

    For the deployed model alone.
    """
    names = [node.name for node in partition_graph(judge.network)]
    placing = _Placing(judge, batch, blank(judge.network.name, names, batch, objective))
    group = judge.array.group
    _all(placing, 0.0)
    if judge.execution.strict_memory:
        for price in BYTE_PRICES:
            least_s = min(
                judge.best_s, work_bound_s(judge.network, judge.array, batch, judge.execution) * 4
            )
            _all(placing, price * least_s / capacity_bytes(group.kinds))


def _all(placing: _Placing, byte_s: float) -> None:
    group = placing.judge.array.group
    placing.subsets(byte_s)
    if len(group.kinds) > 1:
        for weights in proportions(group):
            placing.together(weights, byte_s)


def capacity_bytes(kinds: Sequence[tuple[Device, int]]) -> float:
    """The least HBM of a core of any kind."""
    return min(device.hbm_capacity_bytes / device.cores_per_chip for device, _ in kinds)


def _candidates(chain: Chain) -> Iterable[tuple[int, ...]]:
    """Layouts to estimate: all where they are few, else the likely best."""
    many = [len(costs.states) for costs in chain.nodes]
    if math.prod(many) <= ALL_LAYOUTS:
        return product(*map(range, many))
    return islice(layouts(chain), MOST_LAYOUTS)


def _piece(device: Device, size: int, chain: Chain, picks: Sequence[int]) -> Piece:
    types = [costs.states.at(pick) for costs, pick in zip(chain.nodes, picks, strict=True)]
    return Piece(device, size, tuple(types))
