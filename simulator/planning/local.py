"""From a good plan to a better one: small changes, the most promising first, each simulated.

One node takes another state, or two neighbours do. What that should gain, the
chain says; whether it does, the judge. Nothing is random, and the effort is
counted in lines that are simulated, so that the plan does not depend on the
machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from planners import Plan
from simulator.planning.chain import Chain
from simulator.planning.judge import Judge
from simulator.planning.placements import Placement

FEW = 48
"""Changes that are tried before a plan counts as the best near by."""
WEIGHTS = (0.0, 0.4)
"""Of the stream, by which changes are ranked in turn."""


@dataclass(slots=True)
class Budget:
    """Lines and plans that may still be simulated."""

    judge: Judge
    lines: int
    plans: int

    def left(self) -> bool:
        """Whether anything of both is left."""
        return self.judge.spent < self.lines and self.judge.evaluations < self.plans


def improve(
    placement: Placement, chains: dict[int, Chain], judge: Judge, like: Plan, budget: Budget
) -> Placement:
    """The best placement found from one on; ``chains`` has the costs of every kind that works."""
    best_s = judge.seconds(placement.plan(judge.array, like))
    idle = 0
    while budget.left() and idle < len(WEIGHTS):
        for change in _ranked(placement, chains, WEIGHTS[idle]):
            if not budget.left():
                break
            found_s = judge.seconds(change.plan(judge.array, like))
            if found_s < best_s:
                placement, best_s, idle = change, found_s, 0
                break
        else:
            idle += 1
    return placement


def _ranked(placement: Placement, chains: dict[int, Chain], weight: float) -> Iterator[Placement]:
    """The FEW changes that the chains find cheapest."""
    found: list[tuple[float, int, int, tuple[int, ...]]] = []
    for kind, chain in chains.items():
        piece = placement.pieces[kind]
        if piece is None:
            continue
        pairs = zip(chain.nodes, piece.types, strict=True)
        picks = [costs.states.numbers[tuple(map(int, types))] for costs, types in pairs]
        for start in range(len(picks)):
            for width in (1, 2):
                if start + width <= len(picks):
                    found += _changes(chain, picks, start, width, weight, kind)
    for _, kind, start, states in sorted(found)[:FEW]:
        changed = placement
        for node, state in enumerate(states, start):
            types = chains[kind].nodes[node].states.at(state)
            changed = changed.with_types(kind, node, types)
        yield changed


def _changes(
    chain: Chain, picks: list[int], start: int, width: int, weight: float, kind: int
) -> Iterator[tuple[float, int, int, tuple[int, ...]]]:
    """Other states for one node, or both of two neighbours, with what they add by the chain."""
    end = start + width
    price = chain.own(start, weight)[1]
    if start:
        price = price + chain.pair(start, weight)[picks[start - 1]]
    if width == 2:
        behind = chain.own(start + 1, weight)[1]
        price = price[:, np.newaxis] + chain.pair(start + 1, weight) + behind
    if end < len(picks):
        price = price + chain.pair(end, weight)[:, picks[end]]
    now = tuple(picks[start:end])
    with np.errstate(invalid="ignore"):  # forever less forever: not to be taken
        gain = np.nan_to_num(price - price[now], nan=np.inf)
    for place in np.argsort(gain, axis=None, kind="stable")[: FEW // 4].tolist():
        states = tuple(int(i) for i in np.unravel_index(place, gain.shape))
        if all(state != old for state, old in zip(states, now, strict=True)):
            yield float(gain[states]), kind, start, states
