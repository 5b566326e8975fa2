"""The search's own plans: layouts of the first cores of each kind, judged by simulation.

A layout gives every node a type at every level. The chain's relaxation (``relaxation``) proposes
likely ones for each number of cores; the simulator judges them; the best are improved by small
changes that the chain ranks and the simulator judges.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardware import Device
from planners import Plan
from simulator.engine.jobs import Floats, Ints
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


class Effort(NamedTuple):
    """How many changes are tried before a layout counts as the best near by.

    They are ranked by several weights of the stream in turn.
    """

    changes: int
    weights: tuple[float, ...]


class Near(NamedTuple):
    """Changes of the same nodes: what each adds by the chain, and the nodes' states in it."""

    gains: Floats
    states: Ints


Picks = dict[int, tuple[int, ...]]
"""By kind of device, the numbers of its nodes' states."""
Change = dict[int, int]
"""Other states, by node."""
Judgement = Callable[[Picks], float]
"""Seconds of a layout."""


def improve(
    picks: Picks,
    chains: dict[int, Chain],
    judgement: Judgement,
    effort: Effort,
    left: Callable[[], bool] = lambda: True,
) -> Picks:
    """The best layout found from one on; ``chains`` has the costs of each kind.

    The changes that the chains rank first are tried in turn, each on top of those that helped
    before it; then they are ranked anew. So it goes on while there is ``left`` what that may take.
    """
    best_s, idle = judgement(picks), 0
    tried = {_key(picks)}
    while idle < len(effort.weights):
        before_s = best_s
        for kind, change in _ranked(picks, chains, effort.weights[idle], effort.changes):
            other = _changed(picks, kind, change)
            if _key(other) in tried:
                continue
            if not left():
                return picks
            tried.add(_key(other))
            if (judged_s := judgement(other)) < best_s:
                picks, best_s = other, judged_s
        idle = 0 if best_s < before_s else idle + 1
    return picks


def _key(picks: Picks) -> tuple[tuple[int, ...], ...]:
    return tuple(picks.values())


def _changed(picks: Picks, kind: int, change: Change) -> Picks:
    """The same with other states of some nodes of one kind."""
    changed = list(picks[kind])
    for node, state in change.items():
        changed[node] = state
    return {**picks, kind: tuple(changed)}


def _ranked(
    picks: Picks, chains: dict[int, Chain], weight: float, few: int
) -> Iterator[tuple[int, Change]]:
    """The changes that the chains find cheapest, with their kinds."""
    found: list[tuple[int, Sequence[int], Near]] = []
    for kind, chain in chains.items():
        now = picks[kind]
        for start in range(len(now)):
            for end in range(start + 1, min(start + 2, len(now)) + 1):
                near = _near(chain, now, start, end, weight, few)
                found.append((kind, range(start, end), near))
        found += ((kind, *alike) for alike in _alike(chain, now, weight, few))
    gains = np.concatenate([near.gains for _, _, near in found])
    firsts = list(accumulate([len(near.gains) for _, _, near in found], initial=0))
    for place in np.argsort(gains, kind="stable")[:few].tolist():
        if gains[place] == np.inf:  # what is not to be taken is not tried
            return
        which = bisect_right(firsts, place) - 1
        kind, nodes, near = found[which]
        states = near.states[place - firsts[which]].tolist()
        yield kind, dict(zip(nodes, states, strict=True))


def _near(
    chain: Chain, picks: Sequence[int], start: int, end: int, weight: float, few: int
) -> Near:
    """Other states for one node, or both of two neighbours."""
    price = chain.own(start, weight)
    if start:
        price = price + chain.pair(start, weight)[picks[start - 1]]
    if end > start + 1:
        behind = chain.own(start + 1, weight)
        price = price[:, np.newaxis] + chain.pair(start + 1, weight) + behind
    if end < len(picks):
        price = price + chain.pair(end, weight)[:, picks[end]]
    now = tuple(picks[start:end])
    gain = _gain(price, now)
    most = min(few // 4, gain.size)
    nearest = np.sort(np.argpartition(gain, most - 1, axis=None)[:most])
    states = np.stack(np.unravel_index(nearest, gain.shape), axis=1)
    return _first(gain.ravel()[nearest], states, (states != now).all(axis=1))


def _alike(
    chain: Chain, picks: Sequence[int], weight: float, few: int
) -> Iterator[tuple[Sequence[int], Near]]:
    """Another state for all nodes of a sort that have the same one."""
    groups = defaultdict[tuple[int, int], list[int]](list)
    for v, pick in enumerate(picks):
        groups[chain.tables.sorts[v], pick].append(v)
    for (_, pick), nodes in groups.items():
        if len(nodes) < 2:
            continue
        price = np.zeros(len(chain.nodes[nodes[0]].states))
        for v in nodes:
            price = price + chain.own(v, weight)
            if v:
                price = price + chain.pair(v, weight)[picks[v - 1]]
            if v + 1 < len(picks):
                price = price + chain.pair(v + 1, weight)[:, picks[v + 1]]
        gain = _gain(price, (pick,))
        states = np.argsort(gain, kind="stable")[: few // 8]
        of_nodes = np.repeat(states[:, np.newaxis], len(nodes), axis=1)
        yield nodes, _first(gain[states], of_nodes, states != pick)


def _gain(price: Floats, now: tuple[int, ...]) -> Floats:
    """What other states add; forever less forever is not to be taken."""
    with np.errstate(invalid="ignore"):
        found: Floats = np.nan_to_num(price - price[now], nan=np.inf, posinf=np.inf)
    return found


def _first(gains: Floats, states: Ints, taken: NDArray[np.bool_]) -> Near:
    """Those that are taken, the cheapest first."""
    order = np.argsort(gains, kind="stable")
    order = order[taken[order]]
    return Near(gains[order], states[order])


MOST_LAYOUTS = 6
"""Of a number of cores that are simulated."""
ALL_LAYOUTS = 3**6
"""Up to so many are all simulated: six choices of a type, as of two nodes at three levels."""
MOST_IMPROVED = 2
"""Numbers of cores whose best layouts are improved."""
NEAR = 1.1
"""Layouts are improved that take at most so many times as long as the best."""
LINES = (12_000, 40_000)
"""What improving one may simulate, of each of these and of the best one."""
FEW, MANY = Effort(48, (0.4, 0.8)), Effort(200, (0.4, 0.0))
ROUNDS = 2
"""Of layouts and shares in turn."""

Layout = tuple[int, ...]
"""The number of every node's state."""


@dataclass(frozen=True, slots=True, eq=False)
class Subset:
    """The first ``size`` cores of a kind, and the costs of layouts on them.

    ``loose`` has layouts that leave cores without some nodes, too, where there are few cores.
    """

    device: Device
    size: int
    kind: int
    chain: Chain
    loose: Chain

    def piece(self, picks: Layout) -> Piece:
        """What a plan is made of."""
        pairs = zip(self.loose.nodes, picks, strict=True)
        return Piece(self.device, self.size, tuple(c.states.at(pick) for c, pick in pairs))

    def candidates(self) -> Iterator[Layout]:
        """Likely layouts, each once; all of them where they are few."""
        many = [len(costs.states) for costs in self.loose.nodes]
        if math.prod(many) <= ALL_LAYOUTS:
            yield from product(*map(range, many))
            return
        chains = dict.fromkeys((self.chain, self.loose))
        each = (layouts(chain)[:MOST_LAYOUTS] for chain in chains)
        yield from dict.fromkeys(picks for some in each for picks in some)

    def near(self, picks: Layout) -> tuple[Subset, Layout]:
        """States near a layout's own, which many cores do not have else, and it among them."""
        types = self.piece(picks).types
        known = self.chain.tables
        tables = Tables(known.network, known.batch, known.cores, known.execution, near=types)
        chain = Chain(tables, filled=True, byte_s=self.chain.byte_s)
        pairs = zip(chain.nodes, types, strict=True)
        numbers = tuple(costs.states.numbers[of_node] for costs, of_node in pairs)
        return replace(self, chain=chain, loose=chain), numbers


def subset_of(
    judge: Judge, device: Device, size: int, samples: int, byte_s: float
) -> Subset | None:
    """So many cores, unless no layout of them is better than the best, or they are not alike."""
    cores = first_cores(judge.array, device, size)
    if cores is None:
        return None
    enough_s = math.inf if judge.execution.strict_memory else judge.best_s
    tables = Tables(judge.network, samples, cores, judge.execution)
    if tables.products_s >= enough_s:
        return None
    chain = Chain(tables, filled=True, byte_s=byte_s)
    loose = Chain(tables, byte_s=byte_s) if size <= FEW_CORES else chain
    kinds = [kind for kind, _ in judge.array.group.kinds]
    return Subset(device, size, kinds.index(device), chain, loose)


@dataclass(slots=True)
class LayoutSearch:
    """One search, of a judge; plans are made ``like`` another one, of its batch.

    Bytes that a core holds cost ``byte_s`` seconds each.
    """

    judge: Judge
    like: Plan
    byte_s: float = 0.0

    def of_one_kind(self) -> None:
        """Judge layouts of the first cores of one kind, all other devices idle, and improve them.

        A number of cores is left out where what it computes, or its relaxation, takes longer
        than the best so far.
        """
        found: list[tuple[float, Layout, Subset]] = []
        for work_s, device, size in self._ranked():
            if work_s < self.judge.best_s or self.judge.execution.strict_memory:
                subset = subset_of(self.judge, device, size, self.like.batch, self.byte_s)
                each = [] if subset is None else self._judged(subset)
                if subset is not None and each:
                    found.append((*min(each), subset))
        found.sort(key=lambda one: one[0])
        better = [
            self._refined(*one) for one in found[:MOST_IMPROVED] if one[0] <= NEAR * found[0][0]
        ]
        if better:
            seconds, picks, subset = min(better, key=lambda one: one[0])
            if seconds <= NEAR * self.judge.best_s:
                _, picks, subset = self._refined(seconds, picks, subset)
                self._improved(subset, picks, LINES[1], MANY)

    def _refined(
        self, seconds: float, picks: Layout, subset: Subset
    ) -> tuple[float, Layout, Subset]:
        """A better layout than one: of many cores first by the chain, among states near its own."""
        if subset.chain.tables.cores.levels > MANY_LEVELS:
            subset, picks = subset.near(picks)
            seconds, picks = min([(seconds, picks), *self._judged(subset)])
        return self._improved(subset, picks, LINES[0])

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
        each = [list(subset.candidates()) for subset in subsets]
        many = max(map(len, each))
        found: list[tuple[float, Picks]] = []
        for i in range(many):
            picks = {kind: some[min(i, len(some) - 1)] for kind, some in enumerate(each)}
            found.append((self._seconds(picks, *subsets, shares=shares), picks))
        seconds, picks = min(found, key=lambda one: one[0])
        if improved and seconds <= NEAR * self.judge.best_s:
            self._improve(subsets, picks, LINES[0], FEW, shares)

    def _improved(
        self, subset: Subset, picks: Layout, lines: int, effort: Effort = FEW
    ) -> tuple[float, Layout, Subset]:
        found = self._improve([subset], {subset.kind: picks}, lines, effort)
        return self._seconds(found, subset), found[subset.kind], subset

    def _improve(
        self,
        subsets: list[Subset],
        picks: Picks,
        lines: int,
        effort: Effort,
        shares: Shares | None = None,
    ) -> Picks:
        """What small changes make better, as long as so many lines are left."""
        judge, most = self.judge, self.judge.spent + lines
        return improve(
            picks,
            {one.kind: one.loose for one in subsets},
            lambda one: self._seconds(one, *subsets, shares=shares),
            effort,
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
