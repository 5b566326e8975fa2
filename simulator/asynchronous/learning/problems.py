"""Small problems that every worker can really learn: none of them is a paper's.

Data are drawn from a seed; the samples of a batch depend on the seed, the
worker and the iteration alone, so that methods are compared on the same ones.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import inf
from typing import ClassVar

import numpy as np
from numpy.random import default_rng

from simulator.asynchronous.errors import TrainingError
from simulator.engine.jobs import Floats, Ints


class Problem(ABC):
    """A loss of a model, which is a vector of ``size`` numbers; ``rate`` is the step of SGD.

    Staleness may make a step too long that is not without it.
    """

    size: int
    usual_rate: ClassVar[float]

    def __init__(self, seed: int = 0, rate: float | None = None) -> None:
        self.seed = seed
        self.rate = self.usual_rate if rate is None else rate
        self._prepare(default_rng((seed, 0)))

    @abstractmethod
    def _prepare(self, rng: np.random.Generator) -> None:
        """Draw the data."""

    def start(self) -> Floats:
        """The model that everybody begins with."""
        return np.zeros(self.size)

    @abstractmethod
    def gradient(self, model: Floats, worker: int, iteration: int) -> Floats:
        """Of the loss on the batch of a worker's iteration."""

    @abstractmethod
    def loss(self, model: Floats) -> float:
        """On all data."""

    def _draw(self, worker: int, iteration: int) -> np.random.Generator:
        return default_rng((self.seed, 1, worker, iteration))


class Quadratic(Problem):
    """f(x) = sum of a_i (x_i - x*_i)^2 / 2, least 0 at x*; gradients have noise of 0.1."""

    size = 32
    usual_rate = 0.05

    def _prepare(self, rng: np.random.Generator) -> None:
        self.curvature = np.linspace(0.1, 1.0, self.size)
        self.optimum = rng.standard_normal(self.size)

    def gradient(self, model: Floats, worker: int, iteration: int) -> Floats:  # noqa: D102
        noise = self._draw(worker, iteration).standard_normal(self.size)
        return self.curvature * (model - self.optimum) + 0.1 * noise

    def loss(self, model: Floats) -> float:  # noqa: D102
        return float((self.curvature * (model - self.optimum) ** 2).sum() / 2)


class _Sampled(Problem):
    """Samples, of which a batch is a few at random."""

    samples = 2048
    batch = 16
    inputs: Floats
    targets: Floats

    def _batch(self, worker: int, iteration: int) -> tuple[Floats, Floats]:
        chosen: Ints = self._draw(worker, iteration).integers(self.samples, size=self.batch)
        return self.inputs[chosen], self.targets[chosen]


class Logistic(_Sampled):
    """Logistic regression on two classes that overlap, with a penalty of 0.001 |x|^2 / 2."""

    size = 20
    usual_rate = 0.5
    penalty = 1e-3

    def _prepare(self, rng: np.random.Generator) -> None:
        self.inputs = rng.standard_normal((self.samples, self.size))
        chance = 1 / (1 + np.exp(-self.inputs @ rng.standard_normal(self.size)))
        self.targets = (rng.random(self.samples) < chance).astype(np.float64)

    def gradient(self, model: Floats, worker: int, iteration: int) -> Floats:  # noqa: D102
        inputs, targets = self._batch(worker, iteration)
        wrong = 1 / (1 + np.exp(-inputs @ model)) - targets
        found: Floats = wrong @ inputs / len(targets) + self.penalty * model
        return found

    def loss(self, model: Floats) -> float:  # noqa: D102
        scores = self.inputs @ model
        data = np.logaddexp(0.0, scores) - self.targets * scores
        return float(data.mean() + self.penalty * (model @ model) / 2)


class TwoLayers(_Sampled):
    """A network with one hidden layer of 16 tanh learns what another, hidden one says."""

    inside, hidden = 8, 16
    size = hidden * (inside + 1) + hidden + 1
    usual_rate = 0.02

    def _prepare(self, rng: np.random.Generator) -> None:
        self.inputs = rng.standard_normal((self.samples, self.inside))
        teacher = rng.standard_normal(self.size)
        self.targets = self._forward(teacher, self.inputs)[1]
        self._first = rng.standard_normal(self.size) * 0.3

    def start(self) -> Floats:  # noqa: D102
        return self._first.copy()

    def _layers(self, model: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        cut = self.hidden * self.inside
        first, rest = model[:cut].reshape(self.inside, self.hidden), model[cut:]
        return first, rest[: self.hidden], rest[self.hidden : -1], rest[-1:]

    def _forward(self, model: Floats, inputs: Floats) -> tuple[Floats, Floats]:
        first, bias, second, last = self._layers(model)
        inside = np.tanh(inputs @ first + bias)
        return inside, inside @ second + last

    def gradient(self, model: Floats, worker: int, iteration: int) -> Floats:  # noqa: D102
        inputs, targets = self._batch(worker, iteration)
        inside, said = self._forward(model, inputs)
        wrong = (said - targets) / len(targets)
        back = np.outer(wrong, self._layers(model)[2]) * (1 - inside**2)
        parts = [(inputs.T @ back).ravel(), back.sum(0), wrong @ inside, wrong.sum(keepdims=True)]
        return np.concatenate(parts)

    def loss(self, model: Floats) -> float:  # noqa: D102
        return float(((self._forward(model, self.inputs)[1] - self.targets) ** 2).mean() / 2)


PROBLEMS: dict[str, type[Problem]] = {
    "quadratic": Quadratic,
    "logistic": Logistic,
    "two-layer": TwoLayers,
}
"""The problems by name."""


def load_problem(name: str, seed: int = 0, rate: float | None = None) -> Problem:
    """The problem of that name, learned at its usual rate or another; raises TrainingError."""
    if name not in PROBLEMS:
        raise TrainingError(f"--learn {name!r}: one of {', '.join(PROBLEMS)}")
    if rate is not None and not 0 < rate < inf:
        raise TrainingError(f"--rate {rate:g}: a learning rate is above 0")
    return PROBLEMS[name](seed, rate)
