"""The search's own plans: layouts of the first cores of each kind, judged by simulation.

A layout gives every node a type at every level. The chain's relaxation (``relaxation``) proposes
likely ones for each number of cores; the simulator judges them; the best ones are improved by
small changes that the chain ranks and the simulator judges.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from heapq import nsmallest
from itertools import islice, product
from typing import NamedTuple

import numpy as np

from hardware import Device
from planners import Plan
from simulator.engine.jobs import Floats
from simulator.search.candidates import lifted, powers_of_two, split_of, whole
from simulator.search.judge import Judge
from simulator.search.layouts import first_cores, layouts
from simulator.search.relaxation import Chain
from simulator.search.states import FEW_CORES, MANY_LEVELS, Types
from simulator.search.tables import Tables

Layout = tuple[int, ...]
"""The number of every node's state."""


class Change(NamedTuple):
    """What other states of nodes from the ``first`` one on add by the chain."""

    gain_s: float
    first: int
    states: tuple[int, ...]

    def of(self, picks: Layout) -> Layout:
        """A layout with these states."""
        return (*picks[: self.first], *self.states, *picks[self.first + len(self.states) :])


CHANGES, WEIGHTS = 48, (0.4, 0.8)
"""Changes that are tried before a layout counts as the best near by, ranked by each of these
weights of the stream in turn."""


def improve(
    picks: Layout, chain: Chain, judgement: Callable[[Layout], float], left: Callable[[], bool]
) -> Layout:
    """The best layout found from one on, by seconds.

    The changes that the chain ranks first are tried in turn, each on top of those that helped
    before it; then they are ranked anew. So it goes on while there is ``left`` what that may take.
    """
    best_s, idle = judgement(picks), 0
    while idle < len(WEIGHTS):
        before_s = best_s
        for change in _ranked(picks, chain, WEIGHTS[idle]):
            if not left():
                return picks
            other = change.of(picks)
            if (judged_s := judgement(other)) < best_s:
                picks, best_s = other, judged_s
        idle = 0 if best_s < before_s else idle + 1
    return picks


def _ranked(picks: Layout, chain: Chain, weight: float, few: int = CHANGES) -> list[Change]:
    """The changes of one node, or of two neighbours, that the chain finds cheapest."""
    found, nodes = list[Change](), range(len(picks))
    for some in (*(nodes[v : v + 1] for v in nodes), *(nodes[v : v + 2] for v in nodes[:-1])):
        gains = _gains(chain, picks, some, weight)
        most = min(few // 4, gains.size)
        for place in np.argpartition(gains, most - 1, axis=None)[:most].tolist():
            states = tuple(map(int, np.unravel_index(place, gains.shape)))
            found.append(Change(float(gains[states]), some[0], states))
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
MOST_IMPROVED, NEAR = 2, 1.1
"""Numbers of cores whose best layouts are improved, and how many times the best one's they take."""
LINES = 12_000
"""What improving one may simulate."""


class LayoutSearch:
    """Layouts for a judge; plans are made ``like`` another one, of its batch.

    Bytes that a core holds cost ``byte_s`` seconds each.
    """

    def __init__(self, judge: Judge, like: Plan, byte_s: float = 0.0) -> None:
        self._judge, self._like, self._byte_s = judge, like, byte_s

    def run(self) -> None:
        """Judge layouts of the first cores of each kind, others idle; improve the best of some."""
        found: list[tuple[float, Layout, Chain]] = []
        sizes = (*whole(self._judge.array), *powers_of_two(self._judge.array))
        # few cores first, which take little time and rule others out
        for device, size in sorted(sizes, key=lambda one: one[1] > FEW_CORES):
            chain = self.chain(device, size)
            if chain is not None:
                found.append((*self._best(chain), chain))
        found.sort(key=lambda one: one[0])
        for seconds, picks, chain in found[:MOST_IMPROVED]:
            if seconds <= NEAR * found[0][0]:
                self._refined(chain, picks)

    def _refined(self, chain: Chain, picks: Layout) -> None:
        """Improve a layout; of many cores first by the chain, among states near its own."""
        if chain.tables.cores.levels > MANY_LEVELS:
            chain = self.near(chain, picks)
            _, picks = self._best(chain)
        self.improved(chain, picks)

    def chain(self, device: Device, size: int) -> Chain | None:
        """So many cores, unless no layout of them is better than the best, or they are not alike.

        Of few cores some may be left without some nodes.
        """
        judge = self._judge
        cores = first_cores(judge.array, device, size)
        if cores is None:
            return None
        tables = Tables(judge.network, self._like.batch, cores, judge.execution)
        if tables.products_s >= judge.best_s and not judge.execution.strict_memory:
            return None
        return Chain(tables, filled=size > FEW_CORES, byte_s=self._byte_s)

    def near(self, chain: Chain, picks: Layout) -> Chain:
        """States near a layout's own, which many cores do not have else, and it among them."""
        known = chain.tables
        near = types_of(chain, picks)
        tables = Tables(known.network, known.batch, known.cores, known.execution, near=near)
        return Chain(tables, filled=True, byte_s=self._byte_s)

    def _best(self, chain: Chain) -> tuple[float, Layout]:
        """Of likely layouts, or of all where they are few, the best and what it takes."""
        many = [len(costs.states) for costs in chain.nodes]
        if math.prod(many) <= ALL_LAYOUTS:
            every = list[Layout](product(*map(range, many)))
        else:
            full = Chain(chain.tables, filled=True, byte_s=self._byte_s)
            chains = (chain,) if chain.filled else (full, chain)
            each = (islice(layouts(one), MOST_LAYOUTS) for one in chains)
            every = list(dict.fromkeys(picks for some in each for picks in some))
        return min((self.seconds(chain, picks), picks) for picks in every)

    def improved(self, chain: Chain, picks: Layout) -> Layout:
        """What small changes make better, as long as so many lines are left."""
        most = self._judge.spent + LINES
        return improve(
            picks,
            chain,
            lambda one: self.seconds(chain, one),
            lambda: self._judge.spent < most,
        )

    def seconds(self, chain: Chain, picks: Layout) -> float:
        """What a layout takes, all other devices idle."""
        cores, split = chain.tables.cores, split_of(types_of(chain, picks))
        group, size, nodes = self._judge.array.group, 1 << cores.levels, len(picks)
        root = lifted(split, group, cores.device, size, nodes)
        return self._judge.seconds(replace(self._like, root=root))


def types_of(chain: Chain, picks: Layout) -> list[Types]:
    """Every node's types in a layout."""
    return [costs.states.at(pick) for costs, pick in zip(chain.nodes, picks, strict=True)]
