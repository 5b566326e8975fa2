"""From a good layout to a better one: small changes, the most promising first.

One node takes another state, or two neighbours do, or all nodes of one sort
that have the same state do: blocks repeat. What a change should gain the chain
says; whether it does, a judgement. Nothing is random, and the effort is counted, so
that the plan does not depend on the machine.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.planning.chain import Chain, Near
from simulator.planning.curves import Floats, Ints


class Effort(NamedTuple):
    """How many changes are tried before a layout counts as the best near by.

    They are ranked by several weights of the stream in turn.
    """

    changes: int
    weights: tuple[float, ...]


Picks = dict[int, tuple[int, ...]]
"""By kind of device, the numbers of its nodes' states."""
Change = dict[int, int]
"""Other states, by node."""
Judgement = Callable[[Picks], float]
"""Seconds of a layout."""


@dataclass(slots=True)
class Judged:
    """What layouts take, by a ``judgement``, as long as some ``effort`` is left of it.

    Each costs as much as ``spent`` says it has been.
    """

    judgement: Judgement
    spent: Callable[[], int]
    most: int

    def left(self) -> bool:
        """Whether one more may be judged."""
        return self.spent() < self.most


def improve(picks: Picks, chains: dict[int, Chain], judged: Judged, effort: Effort) -> Picks:
    """The best layout found from one on; ``chains`` has the costs of each kind.

    The changes that the chains rank first are tried in turn, each on top of those that helped
    before it; then they are ranked anew.
    """
    best_s, idle = judged.judgement(picks), 0
    tried = {_key(picks)}
    while idle < len(effort.weights):
        before_s = best_s
        for kind, change in _ranked(picks, chains, effort.weights[idle], effort.changes):
            other = _changed(picks, kind, change)
            if _key(other) in tried:
                continue
            if not judged.left():
                return picks
            tried.add(_key(other))
            if (judged_s := judged.judgement(other)) < best_s:
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
    """Other states for one node, or both of two neighbours.

    Found once for the states around them: most stay the same from change to change.
    """
    around = tuple(picks[max(start - 1, 0) : end + 1])
    key = chain.sort_of(start, end), weight, around, few
    if key not in chain.near:
        chain.near[key] = _nearest(chain, picks, start, end, weight, few)
    return chain.near[key]


def _nearest(
    chain: Chain, picks: Sequence[int], start: int, end: int, weight: float, few: int
) -> Near:
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
        groups[id(chain.nodes[v]), pick].append(v)
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
