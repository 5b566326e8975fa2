"""Everybody's models, carried through what a run says happened to them.

What happens when does not depend on the numbers in the models, so learning
follows the run's history afterwards: the same order, the same result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from simulator.asynchronous.learning.problems import Problem
from simulator.asynchronous.run import Event
from simulator.engine.jobs import Floats
from simulator.engine.picoseconds import PICOSECONDS

POINTS = 200
"""Of a loss curve."""


class Learned(NamedTuple):
    """Loss against simulated seconds, of the mean of all models, and that mean at the end.

    With parameter servers it is their model. ``each`` has every worker's model at the end;
    ``reached_s`` is when the loss was as low as asked for the first time; None if it never was.
    """

    curve: tuple[tuple[float, float], ...]
    model: Floats
    each: Floats
    reached_s: float | None = None

    @property
    def diverged(self) -> bool:
        """Whether the loss is higher at the end than at first, or no number any more."""
        return not self.curve[-1][1] <= self.curve[0][1]


class Curve:
    """Loss against seconds, at some of so many ``events`` and the last one.

    ``reached_s`` is when it was first as low as ``target``: all events are looked at until then.
    """

    def __init__(self, problem: Problem, events: int, target: float | None) -> None:
        self._problem, self._events, self._target = problem, events, target
        self._every = max(events // POINTS, 1)
        self.points: list[tuple[float, float]] = []
        self.reached_s: float | None = None

    def after(self, number: int, at_ps: int, model: Callable[[], Floats]) -> None:
        """Look at the ``model`` after an event, counted from 1; 0 is the beginning."""
        due = number % self._every == 0 or number == self._events
        if not due and (self._target is None or self.reached_s is not None):
            return
        at_s, loss = at_ps / PICOSECONDS, self._problem.loss(model())
        if self._target is not None and self.reached_s is None and loss <= self._target:
            self.reached_s = at_s
        if due:
            self.points.append((at_s, loss))


def learn(
    problem: Problem,
    workers: int,
    shards: int,
    history: Sequence[Event],
    target: float | None = None,
) -> Learned:
    """Carry models of ``problem`` through a history; ``shards`` servers, 0 where there are none.

    A ``target`` is a loss, of which the result says when it was reached.
    """
    models = Models(problem, workers, shards, history)
    curve = Curve(problem, len(history), target)
    curve.after(0, 0, models.mean)
    with np.errstate(all="ignore"):  # what diverges has a loss that says so
        for number, (at_ps, word, *about) in enumerate(history, 1):
            models.do(word, about)
            curve.after(number, at_ps, models.mean)
    return Learned(tuple(curve.points), models.mean(), models.of, curve.reached_s)


class Models:
    """Each worker's model and its last gradient; the servers' model; models that were sent."""

    def __init__(
        self, problem: Problem, workers: int, shards: int, history: Sequence[Event] = ()
    ) -> None:
        self._problem = problem
        self.of = np.tile(problem.start(), (workers, 1))
        self.served = shards > 0
        self.server = problem.start()
        self._shards = np.array_split(np.arange(problem.size), max(shards, 1))
        self._last = np.zeros_like(self.of)
        self._sent: dict[tuple[int, int], Floats] = {}
        self._needed = Counter(
            (v, k)
            for _, word, *about in history
            if word == "mix"
            for v, k, _ in about[2]
            if k is not None
        )

    def mean(self) -> Floats:
        """The servers' model, or else the mean of all workers'."""
        found: Floats = self.server.copy() if self.served else self.of.mean(axis=0)
        return found

    def do(self, word: str, about: Sequence[Any]) -> None:
        """Something happens to a model: a word of ``Run.note``, and what it is about."""
        getattr(self, "_" + word.replace(" ", "_"))(*about)

    def _gradient(self, w: int, iteration: int) -> None:
        self._last[w] = self._problem.gradient(self.of[w], w, iteration)

    def _update(self, w: int) -> None:
        """A worker's own step."""
        self.of[w] -= self._problem.rate * self._last[w]

    def _update_together(self, workers: tuple[int, ...]) -> None:
        """Everybody's gradients are summed in order, and each takes the same step."""
        step = self._problem.rate * _mean(self._last, workers)
        for w in workers:
            self.of[w] -= step

    def _update_at_server(self, workers: tuple[int, ...], shard: int) -> None:
        here = self._shards[shard]
        self.server[here] -= self._problem.rate * _mean(self._last[:, here], workers)

    def _pull(self, w: int, shard: int) -> None:
        here = self._shards[shard]
        self.of[w, here] = self.server[here]

    def _drop(self, w: int, shard: int) -> None:
        """A gradient came too late."""

    def _average(self, workers: tuple[int, ...]) -> None:
        self.of[list(workers)] = _mean(self.of, workers)

    def _send(self, w: int, iteration: int) -> None:
        if self._needed[w, iteration]:
            self._sent[w, iteration] = self.of[w].copy()

    def _mix(self, w: int, _: int, parts: Sequence[tuple[int, int | None, float]]) -> None:
        """The weighted sum of models as they were sent, or (iteration None) of one's own now."""
        mixed = np.zeros(self._problem.size)
        for v, k, weight in parts:
            mixed += weight * (self.of[v] if k is None else self._sent[v, k])
        self.of[w] = mixed
        for v, k, _weight in parts:
            if k is not None:
                self._needed[v, k] -= 1
                if not self._needed[v, k]:
                    del self._sent[v, k]


def _mean(rows: Floats, workers: Sequence[int]) -> Floats:
    """Summed one after the other, in order: the same bits whoever does it."""
    total = rows[workers[0]].copy()
    for w in workers[1:]:
        total += rows[w]
    mean: Floats = total / len(workers)
    return mean
