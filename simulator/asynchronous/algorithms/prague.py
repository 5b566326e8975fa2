"""Ripples/Prague: small groups all-reduce their models, and everybody else goes on.

A central generator says who averages with whom. Groups are taken in the order
in which they were made, by all of their members: so a group waits for groups
that overlap with it, and for nothing else.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

from simulator.asynchronous.algorithm import Algorithm, seeded, within
from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.run import Process, Run
from simulator.engine.operations import Operation
from simulator.engine.resources import Done

GROUPS = ("random", "buffer", "division", "static")


@dataclass(frozen=True)
class Prague(Algorithm):
    """Prague: partial all-reduces in groups of ``group``.

    ``groups``: a new random one for every request; one only for whoever has none
    waiting in its buffer; then all who have none are divided at once; or a fixed
    schedule. With ``nodes`` one worker of each node averages across nodes, then
    all inside them. With ``filter`` nobody more than so many iterations behind
    whoever asks is chosen (-1: all are). Groups average in rings, unless the execution
    model names another algorithm.
    """

    group: int = 3
    groups: str = field(default="division", metadata={"choices": GROUPS})
    nodes: bool = False
    filter: int = -1
    source: ClassVar[str] = "Luo et al., Prague, ASPLOS 2020; Ripples, arXiv 1909.08029"
    recalled: ClassVar[str] = (
        "the protocol; the names of its parts are in the abstract. That the generator answers at "
        "once, and which static schedule it is, are ours"
    )

    def check(self, workers: int) -> None:  # noqa: D102
        within("group", self.group, 2)
        within("group", self.group, 2, max(workers, 2), f"there are {workers} workers")
        within("filter", self.filter, -1)
        if self.nodes and (self.groups, self.group) != (Prague.groups, Prague.group):
            raise TrainingError(
                "option nodes=yes: nodes are the groups; leave group and groups out"
            )
        if self.groups == "static" and self.filter >= 0:
            raise TrainingError(f"option filter={self.filter}: a static schedule chooses nobody")

    def start(self, run: Run) -> None:  # noqa: D102
        if self.nodes and not 1 < len(set(run.cluster.nodes)) < run.n:
            raise TrainingError(
                f"option nodes=yes: the {run.n} workers are not on several nodes of several workers"
            )
        generator = Generator(run, self)

        def iterate(w: int, iteration: int) -> Process:
            step = run.step(w, iteration)
            yield step
            run.note("update", w)
            run.staleness[0] += 1
            for group in generator.groups_of(w, iteration):
                yield from generator.average(w, group, step)
            run.finish(w)

        run.each(iterate)


@dataclass(eq=False)
class Group:
    """Workers that average once."""

    number: int
    members: tuple[int, ...]


class Generator:
    """The central group generator: a buffer of groups for every worker, until they are over."""

    def __init__(self, run: Run, method: Prague) -> None:
        self._run, self._method = run, method
        self._draw = seeded(f"{run.seed} prague")
        self._buffers: list[deque[Group]] = [deque() for _ in range(run.n)]
        self._made = 0
        self._operations: dict[tuple[int, ...], Operation] = {}
        self._fixed: dict[tuple[int, int], Group] = {}

    def groups_of(self, w: int, iteration: int) -> list[Group]:
        """The groups that a worker takes part in now, in order."""
        kind, buffer = self._method.groups, self._buffers[w]
        if kind == "static":
            buffer.append(self._static(w, iteration))
        elif kind == "random":
            self._put(self._random(w))
            return list(buffer)
        elif not buffer and kind == "division":
            self._divide(w)
        elif not buffer:
            self._put(self._random(w))
        return [buffer[0]]

    def average(self, w: int, group: Group, step: Done) -> Process:
        """Take part in a group's all-reduce; until it is over the group is in the buffer."""
        run, members = self._run, group.members
        if len(members) < 2:
            self._buffers[w].popleft()
            return
        if members not in self._operations:
            named = run.cluster.setting.execution.algorithm
            self._operations[members] = run.cluster.all_reduce(
                members, run.cluster.model_bytes, "models", "ring" if named == "auto" else named
            )
        operation = self._operations[members]
        key, over = ("group", group.number), partial(self._over, members)
        meeting = run.together(w, operation, len(members), 0, [step], key, over)
        yield from run.exchanged(w, meeting, members)

    def _over(self, members: tuple[int, ...]) -> None:
        """A group has averaged: it is the first in all of its members' buffers."""
        self._run.note("average", members)
        for w in members:
            self._buffers[w].popleft()

    def _put(self, members: tuple[int, ...]) -> None:
        group = Group(self._made, members)
        self._made += 1
        for w in members:
            self._buffers[w].append(group)

    def _candidates(self, asks: int) -> list[int]:
        """Those who may be grouped with whoever asks: not too far behind."""
        at, most = self._run.at, self._method.filter
        everybody = range(self._run.n)
        if most < 0:
            return [v for v in everybody if v != asks]
        return [v for v in everybody if v != asks and at[v] >= at[asks] - most]

    def _random(self, asks: int) -> tuple[int, ...]:
        others = self._candidates(asks)
        chosen = self._draw.sample(others, min(self._method.group - 1, len(others)))
        return tuple(sorted([asks, *chosen]))

    def _divide(self, asks: int) -> None:
        """Everybody without a group gets one, whoever asks too."""
        free = [v for v in self._candidates(asks) if not self._buffers[v]]
        free.append(asks)
        if self._method.nodes:
            self._across_nodes(free)
            return
        self._draw.shuffle(free)
        self._in_groups(free, self._method.group)

    def _in_groups(self, workers: list[int], size: int) -> None:
        """Groups of so many one after the other; a single one left over joins the last."""
        cuts = list(range(0, len(workers), size))
        if len(cuts) > 1 and len(workers) - cuts[-1] == 1:
            cuts.pop()
        for first, end in zip(cuts, [*cuts[1:], len(workers)], strict=True):
            self._put(tuple(sorted(workers[first:end])))

    def _across_nodes(self, free: list[int]) -> None:
        """One of each node averages with those of the others; then each node inside."""
        nodes: dict[int, list[int]] = {}
        for v in sorted(free):
            nodes.setdefault(self._run.cluster.nodes[v], []).append(v)
        heads = [self._draw.choice(inside) for inside in nodes.values()]
        self._put(tuple(sorted(heads)))
        for head, inside in zip(heads, nodes.values(), strict=True):
            rest = [v for v in inside if v != head]
            if rest:
                self._put(tuple(rest))
        for inside in nodes.values():
            self._put(tuple(inside))

    def _static(self, w: int, iteration: int) -> Group:
        """Blocks of neighbouring workers, which move on by one worker an iteration."""
        n, size = self._run.n, self._method.group
        place = (w + iteration) % n
        block = place // size
        last = (n - 1) // size
        if n - last * size == 1 and last:
            block = min(block, last - 1)
            last -= 1
        key = (iteration, block)
        if key not in self._fixed:
            end = n if block == last else (block + 1) * size
            members = ((p - iteration) % n for p in range(block * size, end))
            self._fixed[key] = Group(self._made, tuple(sorted(members)))
            self._made += 1
        return self._fixed[key]
