"""A second program: models of a training run, from the history that `train --history` wrote.

It has numpy alone, and none of accelarray. Every model is a row of one matrix (the servers' is
the last one), and every event but a gradient is a matrix that this one is multiplied with.

    python -m tests.simulator.asynchronous.replay history.json
"""

import json
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def data(problem: str, seed: int) -> dict[str, Floats]:
    rng = np.random.default_rng([seed, 0])
    if problem == "quadratic":
        return {"optimum": rng.normal(size=32), "curvature": np.linspace(0.1, 1, 32)}
    if problem == "logistic":
        x = rng.normal(size=(2048, 20))
        chance = 1 / (1 + np.exp(-x.dot(rng.normal(size=20))))
        return {"x": x, "y": 1.0 * (rng.random(2048) < chance)}
    x, teacher = rng.normal(size=(2048, 8)), rng.normal(size=161)
    return {"x": x, "y": output(teacher, x), "start": 0.3 * rng.normal(size=161)}


def output(model: Floats, x: Floats) -> Floats:
    hidden = np.tanh(x @ model[:128].reshape(8, 16) + model[128:144])
    found: Floats = hidden @ model[144:160] + model[160]
    return found


def gradient(
    problem: str, known: dict[str, Floats], model: Floats, draw: tuple[int, int, int]
) -> Floats:
    rng = np.random.default_rng([draw[0], 1, *draw[1:]])
    if problem == "quadratic":
        noise = rng.normal(size=32)
        return known["curvature"] * model - known["curvature"] * known["optimum"] + noise / 10
    rows = rng.integers(2048, size=16)
    x, y = known["x"][rows], known["y"][rows]
    if problem == "logistic":
        terms = [(1 / (1 + np.exp(-a.dot(model))) - b) * a for a, b in zip(x, y, strict=True)]
        found: Floats = np.sum(terms, axis=0) / 16 + model / 1000
        return found
    total = np.zeros(161)
    for a, b in zip(x, y, strict=True):  # backpropagation, one sample after the other
        hidden = np.tanh(np.array([a @ model[j:128:16] for j in range(16)]) + model[128:144])
        wrong = hidden @ model[144:160] + model[160] - b
        inner = wrong * model[144:160] * (1 - hidden * hidden)
        for i in range(8):
            total[16 * i : 16 * i + 16] += a[i] * inner
        total[128:144] += inner
        total[144:160] += wrong * hidden
        total[160] += wrong
    return total / 16


def replay(told: dict[str, Any]) -> Floats:
    """All models at the end, a row each; the servers' is the last row."""
    n, problem, seed, rate = told["workers"], told["problem"], told["seed"], told["rate"]
    known = data(problem, seed)
    size = {"quadratic": 32, "logistic": 20, "two-layer": 161}[problem]
    models = np.tile(known.get("start", np.zeros(size)), (n + 1, 1))
    gradients, sent = np.zeros((n + 1, size)), {}
    bounds = np.cumsum(
        [0] + [size // k + (s < size % k) for k in [max(told["servers"], 1)] for s in range(k)]
    )
    for _, word, *about in told["events"]:
        if word == "gradient":
            worker, iteration = about
            gradients[worker] = gradient(problem, known, models[worker], (seed, worker, iteration))
            continue
        if word == "send":
            sent[tuple(about)] = models[about[0]].copy()
            continue
        if word == "mix":
            worker, _, parts = about
            models[worker] = sum(x * (models[v] if k is None else sent[v, k]) for v, k, x in parts)
            continue
        here, step, mix = slice(None), np.zeros((n + 1, n + 1)), np.eye(n + 1)
        if word == "update":
            step[about[0], about[0]] = 1
        elif word == "update together":
            step[np.ix_(about[0], about[0])] = 1 / len(about[0])
        elif word == "update at server":
            step[n, about[0]] = 1 / len(about[0])
            here = slice(*bounds[about[1] : about[1] + 2])
        elif word == "pull":
            mix[about[0]] = np.eye(n + 1)[n]
            here = slice(*bounds[about[1] : about[1] + 2])
        elif word == "average":
            mix[about[0]] = np.isin(np.arange(n + 1), about[0]) / len(about[0])
        elif word != "drop":
            raise ValueError(f"an unknown event: {word}")
        models[:, here] = mix @ models[:, here] - rate * step @ gradients[:, here]
    return models


if __name__ == "__main__":
    with open(sys.argv[1]) as file:
        told = json.load(file)
    found = replay(told)
    print(np.abs(found[:-1] - told["models"]).max())
