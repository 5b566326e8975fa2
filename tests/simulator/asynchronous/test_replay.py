"""Learning by every method, again by a program that shares no code, from what is exported."""

import ast
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.cli import main
from simulator.asynchronous.learning.models import learn
from simulator.asynchronous.learning.problems import PROBLEMS, load_problem
from simulator.asynchronous.registry import ALGORITHMS
from tests.simulator.asynchronous import replay as second

OPTIONS = {
    "ps": ["ps", "ps:shards=3"],
    "async-ps": ["async-ps", "async-ps:shards=2"],
    "ssp": ["ssp", "ssp:shards=3"],
    "backup": ["backup:backup=2:shards=2"],
    "ad-psgd": ["ad-psgd", "ad-psgd:overlap=yes"],
    "hop": ["hop", "hop:tokens=3:staleness=2:skip=4", "hop:tokens=3:backup=1"],
    "prague": ["prague:group=3", "prague:groups=static"],
    "local-sgd": ["local-sgd:steps=3"],
}
METHODS = [one for name in ALGORITHMS for one in OPTIONS.get(name, [name])]
"""Every method, and those of its options that change what happens to models."""


def test_it_has_numpy_alone() -> None:
    found = set[str]()
    for one in ast.walk(ast.parse(Path(second.__file__).read_text())):
        if isinstance(one, ast.Import):
            found |= {name.name for name in one.names}
        elif isinstance(one, ast.ImportFrom):
            found.add(str(one.module))
    assert found == {"json", "sys", "typing", "numpy", "numpy.typing"}


def exported(method: str, problem: str, folder: Path, *words: str) -> dict[str, Any]:
    path = folder / "history.json"
    where = ["ethernet-100g", "--workers", "6"]
    if method == "hierarchical":
        where = ["h100-cluster", "--set", "nodes=2", "--workers", "16"]
    run = ["train", "lenet", "--iterations", "12", "--array", *where]
    more = ["--method", method, "--learn", problem, "--slowdown", "lognormal:0.7"]
    assert main([*run, *more, *words, "--history", str(path), "--format", "json"]) == 0
    found: dict[str, Any] = json.loads(path.read_text())
    return found


@pytest.mark.parametrize("method", METHODS)
def test_a_second_program_gets_the_same_models(
    method: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = list(PROBLEMS)[METHODS.index(method) % len(PROBLEMS)]
    told = exported(method, problem, tmp_path, "--seed", "36")
    capsys.readouterr()
    found = second.replay(told)
    np.testing.assert_allclose(found[:-1], told["models"], rtol=1e-12, atol=1e-12)
    own = found[-1] if told["servers"] else found[:-1].mean(axis=0)
    np.testing.assert_allclose(own, told["model"], rtol=1e-12, atol=1e-12)
    learned = np.abs(found[:-1] - second.replay(told | {"events": []})[:-1])
    assert learned.max(axis=1).min() > 1e-3


@pytest.mark.parametrize("problem", PROBLEMS)
def test_events_in_any_order(problem: str) -> None:
    """Shards that interleave, as on unlike servers; sent models that are used late, or twice."""
    draw, workers, servers = random.Random(problem), 4, 3  # noqa: S311
    events: list[tuple[Any, ...]] = []
    for k in range(300):
        w, shard = draw.randrange(workers), draw.randrange(servers)
        some = tuple(draw.sample(range(workers), draw.randint(1, workers)))
        sent = [e[2:] for e in events if e[1] == "send"]
        weights = [draw.random() for _ in range(3)]
        parts = [
            (w, None, weights[0]),
            *((*draw.choice(sent or [(w, None)]), x) for x in weights[1:]),
        ]
        mix = tuple((v, i, x / sum(weights)) for v, i, x in parts)
        other = draw.choice(
            [
                ("update", w),
                ("update together", some),
                ("update at server", some, shard),
                ("pull", w, shard),
                ("drop", w, shard),
                ("average", some),
                ("send", w, k),
                ("mix", w, k, mix),
            ]
        )
        events += [(k, "gradient", w, k), (k, *other)]
    ours = learn(load_problem(problem, 3), workers, servers, events)
    told = {"workers": workers, "servers": servers, "problem": problem, "seed": 3, "events": events}
    found = second.replay(json.loads(json.dumps(told | {"rate": load_problem(problem).rate})))
    np.testing.assert_allclose(found[:-1], ours.each, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found[-1], ours.model, rtol=1e-12, atol=1e-12)


def test_histories_are_of_one_method_that_learns(capsys: pytest.CaptureFixture[str]) -> None:
    run = ["train", "lenet", "--workers", "2", "--iterations", "2", "--history"]
    for words, said in (
        (["h.json"], "--history: only models that learn have one; add --learn logistic"),
        (["h.csv", "--learn", "logistic"], "--history 'h.csv': the name must end in .json"),
        (["h.json", "--learn", "logistic", "--compare", "ps,ssp"], "--history: of one method"),
    ):
        assert main([*run, *words]) == 2
        assert said in capsys.readouterr().err
