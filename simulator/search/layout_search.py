"""The search's own plans: layouts of the first cores of each kind, judged by simulation.

A layout gives every node a type at every level. The chain's relaxation (``relaxation``) proposes
likely ones for each number of cores; the simulator judges them; the best are improved by small
changes that the chain ranks and the simulator judges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from itertools import product
from typing import NamedTuple

import numpy as np

from hardware import Device
from planners import Plan
from simulator.engine.jobs import Floats
from simulator.search.bounds import work_bound_s
from simulator.search.candidates import (
    Piece,
    alone,
    leaves_of,
    mean_shares,
    placed,
    powers_of_two,
    whole,
)
from simulator.search.judge import Judge
from simulator.search.layouts import first_cores, layouts
from simulator.search.relaxation import Chain
from simulator.search.shares import Shares, with_better_shares
from simulator.search.states import FEW_CORES, MANY_LEVELS
from simulator.search.tables import Tables

Picks = dict[int, tuple[int, ...]]
"""By kind of device, the numbers of its nodes' states."""


class Change(NamedTuple):
    """What other states of nodes from the ``first`` one on add by the chain of a kind."""

    gain_s: float
    kind: int
    first: int
    states: tuple[int, ...]


Judgement = Callable[[Picks], float]
"""Seconds of a layout."""
CHANGES, WEIGHTS = 48, (0.4, 0.8)
"""Changes that are tried before a layout counts as the best near by, ranked by each of these
weights of the stream in turn."""


def improve(
    picks: Picks, chains: dict[int, Chain], judgement: Judgement, left: Callable[[], bool]
) -> Picks:
    """The best layout found from one on; ``chains`` has the costs of each kind.

    The changes that the chains rank first are tried in turn, each on top of those that helped
    before it; then they are ranked anew. So it goes on while there is ``left`` what that may take.
    """
    best_s, idle = judgement(picks), 0
    while idle < len(WEIGHTS):
        before_s = best_s
        for change in _ranked(picks, chains, WEIGHTS[idle]):
            if not left():
                return picks
            other = changed(picks, change)
            if (judged_s := judgement(other)) < best_s:
                picks, best_s = other, judged_s
        idle = 0 if best_s < before_s else idle + 1
    return picks


def changed(picks: Picks, change: Change) -> Picks:
    """The same with other states of some nodes of one kind."""
    own = picks[change.kind]
    end = change.first + len(change.states)
    return {**picks, change.kind: (*own[: change.first], *change.states, *own[end:])}


def _ranked(
    picks: Picks, chains: dict[int, Chain], weight: float, few: int = CHANGES
) -> list[Change]:
    """The changes that the chains find cheapest."""
    found = list[Change]()
    for kind, chain in chains.items():
        nodes = range(len(picks[kind]))
        for some in (*(nodes[v : v + 1] for v in nodes), *(nodes[v : v + 2] for v in nodes[:-1])):
            gains = _gains(chain, picks[kind], some, weight)
            most = min(few // 4, gains.size)
            for place in np.argpartition(gains, most - 1, axis=None)[:most].tolist():
                states = tuple(map(int, np.unravel_index(place, gains.shape)))
                found.append(Change(float(gains[states]), kind, some[0], states))
    return [change for change in nsmallest(few, found) if change.gain_s < math.inf]


def _gains(chain: Chain, picks: Sequence[int], nodes: range, weight: float) -> Floats:
    """What other states of one node, or both of two neighbours, add by the chain.

    Forever less forever is not to be taken.
    """
    first, last = nodes[0], nodes[-1]
    price = chain.own(first, weight)
    if first:
        price = price + chain.pair(first, weight)[picks[first - 1]]
    if last > first:
        price = price[:, np.newaxis] + chain.pair(last, weight) + chain.own(last, weight)
    if last + 1 < len(picks):
        price = price + chain.pair(last + 1, weight)[:, picks[last + 1]]
    now = tuple(picks[v] for v in nodes)
    with np.errstate(invalid="ignore"):
        found: Floats = np.nan_to_num(price - price[now], nan=np.inf, posinf=np.inf)
    for axis, state in enumerate(now):
        np.moveaxis(found, axis, 0)[state] = np.inf
    return found


MOST_LAYOUTS = 6
"""Of a number of cores that are simulated."""
ALL_LAYOUTS = 3**6
"""Up to so many are all simulated: six choices of a type, as of two nodes at three levels."""
NEAR = 1.1
"""Layouts of all kinds are improved that take at most so many times as long as the best."""
LINES = 12_000
"""What improving one may simulate."""
ROUNDS = 2
"""Of layouts and shares in turn."""

Layout = tuple[int, ...]
"""The number of every node's state."""


@dataclass(frozen=True, slots=True, eq=False)
class Subset:
    """The first ``size`` cores of a kind, and the costs of layouts on them."""

    device: Device
    size: int
    kind: int
    chain: Chain

    def piece(self, picks: Layout) -> Piece:
        """What a plan is made of."""
        pairs = zip(self.chain.nodes, picks, strict=True)
        return Piece(self.device, self.size, tuple(c.states.at(pick) for c, pick in pairs))

    def near(self, picks: Layout) -> Subset:
        """States near a layout's own, which many cores do not have else, and it among them."""
        known = self.chain.tables
        near = self.piece(picks).types
        tables = Tables(known.network, known.batch, known.cores, known.execution, near=near)
        return replace(self, chain=Chain(tables, filled=True, byte_s=self.chain.byte_s))

    def candidates(self) -> list[Layout]:
        """Likely layouts, each once; all of them where they are few."""
        many = [len(costs.states) for costs in self.chain.nodes]
        if math.prod(many) <= ALL_LAYOUTS:
            return list(product(*map(range, many)))
        return layouts(self.chain)[:MOST_LAYOUTS]


def subset_of(
    judge: Judge, device: Device, size: int, samples: int, byte_s: float
) -> Subset | None:
    """So many cores, unless no layout of them is better than the best, or they are not alike.

    Of few cores some may be left without some nodes.
    """
    cores = first_cores(judge.array, device, size)
    if cores is None:
        return None
    enough_s = math.inf if judge.execution.strict_memory else judge.best_s
    tables = Tables(judge.network, samples, cores, judge.execution)
    if tables.products_s >= enough_s:
        return None
    chain = Chain(tables, filled=size > FEW_CORES, byte_s=byte_s)
    kinds = [kind for kind, _ in judge.array.group.kinds]
    return Subset(device, size, kinds.index(device), chain)


@dataclass(slots=True)
class LayoutSearch:
    """One search, of a judge; plans are made ``like`` another one, of its batch.

    Bytes that a core holds cost ``byte_s`` seconds each.
    """

    judge: Judge
    like: Plan
    byte_s: float = 0.0

    def of_one_kind(self) -> None:
        """Judge layouts of the first cores of one kind, all other devices idle, and improve the best.

        A number of cores is left out where what it computes takes longer than the best so far.
        """
        found: list[tuple[float, Layout, Subset]] = []
        for work_s, device, size in self._ranked():
            if work_s < self.judge.best_s or self.judge.execution.strict_memory:
                subset = subset_of(self.judge, device, size, self.like.batch, self.byte_s)
                if subset is not None:
                    found.append((*min(self._judged(subset)), subset))
        if found:
            _, picks, subset = min(found, key=lambda one: one[0])
            if subset.chain.tables.cores.levels > MANY_LEVELS:  # first by the chain
                subset = subset.near(picks)
                _, picks = min(self._judged(subset))
            self._improve([subset], {subset.kind: picks})

    def _judged(self, subset: Subset) -> list[tuple[float, Layout]]:
        """Likely layouts, with what they take."""
        each = subset.candidates()
        return [(self._seconds({subset.kind: picks}, subset), picks) for picks in each]

    def of_all_kinds(self, shares: Shares, *, improved: bool = False) -> None:
        """Judge layouts of all kinds together in these shares (type I between kinds)."""
        kinds, subsets = self.judge.array.group.kinds, list[Subset]()
        if len(kinds) == 1:
            return
        for (device, _), share in zip(kinds, shares, strict=True):
            samples = samples_of(self.like.batch, share / sum(shares))
            size = leaves_of(self.judge.array.group, device)
            subset = subset_of(self.judge, device, size, samples, self.byte_s)
            if subset is None:
                return
            subsets.append(subset)
        each = [subset.candidates() for subset in subsets]
        many = max(map(len, each))
        found: list[tuple[float, Picks]] = []
        for i in range(many):
            picks = {kind: some[min(i, len(some) - 1)] for kind, some in enumerate(each)}
            found.append((self._seconds(picks, *subsets, shares=shares), picks))
        seconds, picks = min(found, key=lambda one: one[0])
        if improved and seconds <= NEAR * self.judge.best_s:
            self._improve(subsets, picks, shares)

    def _improve(self, subsets: list[Subset], picks: Picks, shares: Shares | None = None) -> None:
        """Judge small changes, as long as so many lines are left."""
        judge, most = self.judge, self.judge.spent + LINES
        improve(
            picks,
            {one.kind: one.chain for one in subsets},
            lambda one: self._seconds(one, *subsets, shares=shares),
            lambda: judge.spent < most,
        )

    def _seconds(self, picks: Picks, *subsets: Subset, shares: Shares | None = None) -> float:
        kinds = range(len(self.judge.array.group.kinds))
        mine = {one.kind: one.piece(picks[one.kind]) for one in subsets}
        weights = shares or tuple(float(kind in mine) for kind in kinds)
        pieces = tuple(mine.get(kind) for kind in kinds)
        return self.judge.seconds(placed(self.like, self.judge.array.group, pieces, weights))

    def _ranked(self) -> list[tuple[float, Device, int]]:
        """Numbers of cores of each kind; few first, which take little time and rule others out."""
        judge, found = self.judge, list[tuple[float, Device, int]]()
        sizes = (*whole(judge.array), *powers_of_two(judge.array))
        for device, size in sizes:
            part = alone(judge.array, device, size)
            if part is not None:
                work_s = work_bound_s(judge.network, part, self.like.batch, judge.execution)
                found.append((work_s, device, size))
        return sorted(found, key=lambda one: (one[2] > FEW_CORES, one[0]))


def with_layouts_and_shares(judge: Judge, like: Plan) -> None:
    """Judge better layouts with the shares of the best plan, and then better shares.

    Layouts if all kinds work in it, and first: shares take many simulations, of a layout that
    may be left for a better one. Both again where a kind has another number of samples then.
    """
    before: tuple[int, ...] = ()
    for _ in range(ROUNDS):
        plan, group = judge.best, judge.array.group
        if plan is None:
            return
        shares = mean_shares(group, plan.root, 1.0)
        samples = tuple(samples_of(plan.batch, share) for share in shares)
        if samples == before:
            return
        before = samples
        if all(shares):
            LayoutSearch(judge, like).of_all_kinds(shares, improved=True)
        with_better_shares(judge)


def samples_of(batch: int, share: float) -> int:
    """Whole samples of a share, at least one."""
    return max(1, round(batch * share))
