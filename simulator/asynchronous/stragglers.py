"""Slow workers and slow links, workers that die and workers that join late.

What is drawn depends on the seed, the worker and the iteration alone: methods
that are compared get the same draws.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import inf, isfinite
from os.path import isfile

import numpy as np
from numpy.random import Generator, default_rng

from hardware.reader import read_text
from simulator.asynchronous.errors import TrainingError

FORMS = (
    "none, worker:W:TIMES, random:PROBABILITY:TIMES, normal:SIGMA, lognormal:SIGMA, "
    "exponential:MEAN, "
    "link:NAME:TIMES, die:W:SECONDS, join:W:SECONDS, or a file of factors"
)
DRAWN_AT_ONCE = 256
MOST_TRACE_BYTES = 64 << 20


LEAST = 1e-6
"""The smallest factor by which a time may be multiplied."""
Draw = Callable[[Generator, int], "np.ndarray[tuple[int], np.dtype[np.float64]]"]
"""So many factors from a generator."""
Factors = Callable[[int], Callable[[int], float]]
"""Of a worker, how many times as long each of its iterations takes."""


def _drawn(draw: Draw, stream: tuple[int, int]) -> Factors:
    """Each iteration's factor is drawn anew, from the worker's own stream."""

    def of(worker: int) -> Callable[[int], float]:
        rng, drawn = default_rng((*stream, worker)), list[float]()

        def factor(iteration: int) -> float:
            while len(drawn) <= iteration:
                drawn.extend(draw(rng, DRAWN_AT_ONCE).tolist())
            return drawn[iteration]

        return factor

    return of


@dataclass(frozen=True)
class Slowdowns:
    """All that slows a run down: factors, links by name, and when workers die or join (s)."""

    factors: tuple[Factors, ...] = ()
    links: tuple[tuple[str, float], ...] = ()
    dies_s: dict[int, float] = field(default_factory=dict)
    joins_s: dict[int, float] = field(default_factory=dict)

    def pace(self, worker: int) -> Callable[[int], float] | None:
        """How many times as long its iterations take: the product of all; None if none slows."""
        found = [factors(worker) for factors in self.factors]
        if len(found) < 2:
            return found[0] if found else None

        def product(iteration: int) -> float:
            factor = 1.0
            for one in found:
                factor *= one(iteration)
            return factor

        return product


def parse_slowdowns(
    texts: Sequence[str], workers: int, iterations: int, seed: int = 0
) -> Slowdowns:
    """Several at once multiply; raises TrainingError for what FORMS does not have."""
    factors: list[Factors] = []
    links: list[tuple[str, float]] = []
    dies: dict[int, float] = {}
    joins: dict[int, float] = {}
    drawn = 0  # each random form has draws of its own
    for text in texts:
        kind, *words = text.split(":")
        if kind == "link" and len(words) > 1:
            links.append((":".join(words[:-1]), _times(text, words[-1])))
        elif kind in ("die", "join") and len(words) == 2:
            when = _number(text, words[1], 0, inf, "a time is 0 s or later")
            who = _who(text, words[0], workers)
            if kind == "die":
                dies[who] = min(when, dies.get(who, inf))
            elif when:
                joins[who] = max(when, joins.get(who, 0.0))
        elif text != "none":
            factors.append(_factors(text, kind, words, workers, iterations, (seed, drawn)))
            drawn += draw_of(text) is not None
    return Slowdowns(tuple(factors), tuple(links), dies, joins)


def _factors(
    text: str,
    kind: str,
    words: Sequence[str],
    workers: int,
    iterations: int,
    stream: tuple[int, int],
) -> Factors:
    if kind == "worker" and len(words) == 2:
        slow, times = _who(text, words[0], workers), _times(text, words[1])
        return lambda worker: lambda _: times if worker == slow else 1.0
    if (draw := draw_of(text)) is not None:
        return _drawn(draw, stream)
    rows = _trace(text, workers, iterations)  # at its end it begins anew
    return lambda worker: lambda iteration: rows[iteration % len(rows)][worker]


def draw_of(text: str) -> Draw | None:
    """How factors of a random form of FORMS are drawn, all alike; None for other forms.

    Raises TrainingError for wrong numbers in it.
    """
    kind, *words = text.split(":")
    if kind == "random" and len(words) == 2:
        chance = _number(text, words[0], 0, 1, "a probability is within 0…1")
        times = _times(text, words[1])
        return lambda r, many: np.where(r.random(many) < chance, times, 1.0)
    if kind in ("normal", "lognormal") and len(words) == 1:
        sigma = _number(text, words[0], 0, 10, "a sigma is within 0…10")
        if kind == "normal":
            return lambda r, many: np.maximum(1 + sigma * r.standard_normal(many), LEAST)
        return lambda r, many: np.exp(sigma * r.standard_normal(many))
    if kind == "exponential" and len(words) == 1:
        mean = _number(text, words[0], 0, 1e6, "a mean is within 0…1e6")
        return lambda r, many: 1 + mean * r.standard_exponential(many)
    return None


def _times(text: str, word: str) -> float:
    return _number(text, word, 1e-6, 1e9, "how many times as slow is within 1e-6…1e9")


def _who(text: str, word: str, workers: int) -> int:
    if not (word.isascii() and word.isdigit() and int(word[:9]) < workers):
        raise TrainingError(f"slowdown {text!r}: workers are 0 to {workers - 1}, not {word!r}")
    return int(word)


def _number(text: str, word: str, least: float, most: float, rule: str) -> float:
    try:
        value = float(word)
    except ValueError:
        value = inf
    if not (isfinite(value) and least <= value <= most):
        raise TrainingError(f"slowdown {text!r}: {word!r}: {rule}")
    return value


def _trace(name: str, workers: int, iterations: int) -> list[tuple[float, ...]]:
    """A file with a line an iteration and a factor for each worker; # begins a comment."""
    if not isfile(name):
        raise TrainingError(f"slowdown {name!r}: expected {FORMS}")
    text = read_text(name, TrainingError, "a trace", MOST_TRACE_BYTES)
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].replace(",", " ").split()
        if words:
            rows.append(_row(name, number, words, workers))
    if len(rows) < iterations:
        raise TrainingError(
            f"slowdown {name!r}: {len(rows)} lines for {iterations} iterations; is it cut off?"
        )
    return rows


def _row(name: str, number: int, words: Sequence[str], workers: int) -> tuple[float, ...]:
    where = f"{name}, line {number}"
    if len(words) != workers:
        raise TrainingError(
            f"slowdown {where}: {len(words)} factors for {workers} workers; is it cut off?"
        )
    return tuple(_number(where, word, 1e-6, 1e9, "a factor is within 1e-6…1e9") for word in words)
