"""The released program's recurrence on any graph, in plain sets and numbers: a second writing.

Only for small graphs: a state is a frozen set of node positions, everything is
looked up and summed anew, and nothing is shared with the package.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

from planners.pipeline import Profile

State = frozenset[int]


class SlowRepo:
    """The least time per minibatch of a profile on levels of (machines, bytes/s)."""

    def __init__(
        self, profile: Profile, levels: Sequence[tuple[int, float]], ratio: float | None
    ) -> None:
        self.nodes, self.edges = profile.nodes, profile.edges
        self.levels, self.ratio = list(levels), ratio
        self.everything = frozenset(range(len(self.nodes)))
        self.states = self._states()
        self.best = cache(self._best)

    def answer(self) -> float:
        """Of the whole network."""
        return self.best(len(self.levels) - 1, frozenset(), self.everything, self.levels[-1][0])

    def leads_to(self, node: int) -> State:
        """Everything on a path to a node, without it."""
        found = frozenset(a for a, b in self.edges if b == node)
        for one in found:
            found |= self.leads_to(one)
        return found

    def _states(self) -> set[State]:
        """Grow the first source's own set by one fed node and its needs at a time."""
        first = min(v for v in self.everything if not self.leads_to(v))
        found, todo = {frozenset([first])}, [frozenset([first])]
        while todo:
            state = todo.pop()
            for a, b in self.edges:
                if a in state and b not in state:
                    grown = state | {b} | self.leads_to(b)
                    if grown not in found:
                        found.add(grown)
                        todo.append(grown)
        return found

    def counted(self, state: State) -> float:
        """Bytes that the program takes to cross the cut after a state."""
        if state == self.everything:
            return 0.0
        ends = {x for x in state if not any(a == x and b in state for a, b in self.edges)}
        kept = set(ends)
        for x in ends:
            above = self.leads_to(x)
            kept |= {a for a, b in self.edges if a in above and b not in above and b != x}
        return sum(self.nodes[v].activation_bytes for v in kept)

    def unit(self, level: int, done: State, state: State) -> float:
        """What one machine of a level takes for the nodes between two states."""
        if level:
            return self.best(level - 1, done, state, self.levels[level - 1][0])
        own = (self.nodes[v] for v in state - done)
        return sum(node.forward_s + node.backward_s for node in own)

    def stage(self, level: int, done: State, state: State, replicas: int, links: int) -> float:
        """Work and exchange of one stage."""
        weights = sum(self.nodes[v].parameter_bytes for v in state - done)
        exchange = 4 * (replicas - 1) / replicas * weights / (self.levels[level][1] * links)
        return (self.unit(level, done, state) + exchange) / replicas

    def _best(self, level: int, done: State, state: State, machines: int) -> float:
        inner = self.levels[level - 1][0] if level else 1
        found = self.stage(level, done, state, machines, inner)
        for between in self.states:
            if not done < between < state:
                continue
            for replicas in range(1, machines):
                slowest = max(
                    self.best(level, done, between, machines - replicas),
                    self.stage(level, between, state, replicas, 1),
                )
                if self.ratio is not None:
                    crossing = max(self.counted(between), self.counted(state))
                    bandwidth = self.levels[level][1] * replicas * self.ratio
                    slowest = max(slowest, 2 * crossing / bandwidth)
                found = min(found, slowest)
        assert math.isfinite(found)
        return found
