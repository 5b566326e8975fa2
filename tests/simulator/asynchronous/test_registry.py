"""Methods by name, their options as text, and what every one of them has to do."""

import os
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from simulator.asynchronous.algorithm import Algorithm
from simulator.asynchronous.algorithms.all_reduce import AllReduce
from simulator.asynchronous.algorithms.prague import Prague
from simulator.asynchronous.errors import TrainingError
from simulator.asynchronous.registry import ALGORITHMS, algorithm_names, load_algorithm
from simulator.asynchronous.stragglers import parse_slowdowns
from tests.simulator.asynchronous.clusters import Watched, watched

FLAT = {"hierarchical": {"algorithm": "ring"}}
"""One worker a board: there is nothing to be hierarchical about."""


def ran(method: str, n: int = 6, k: int = 15, seed: int = 2) -> Watched:
    slow = parse_slowdowns(["lognormal:0.5"], n, k, seed)
    return watched(method, n, k, slow=slow, seed=seed, spare=1, options=FLAT.get(method))


@pytest.mark.parametrize("method", ALGORITHMS)
def test_every_method_names_its_source_and_does_its_iterations(method: str) -> None:
    assert len(ALGORITHMS[method].source) > 10
    ours = ran(method)
    assert ours.hang is None
    assert sum(ours.run.done) >= 6 * 15
    for w in range(6):
        ends = ours.run.ends[w]
        assert list(ends) == sorted(ends)
        assert len(ends) == ours.run.done[w]
        gradients = [about for _, word, *about in ours.run.history if word == "gradient"]
        mine = [k for worker, k in gradients if worker == w]
        assert mine == list(range(len(mine)))


@pytest.mark.parametrize("method", ALGORITHMS)
def test_time_is_spent_computing_or_waiting(method: str) -> None:
    """Of each worker: its steps and its waits fill the time until its last iteration ended."""
    ours = ran(method)
    columns, all_resources = ours.timeline.columns, ours.timeline.all_resources
    for w in range(6):
        core, last = all_resources.workers[w].cores[0], ours.run.ends[w][-1]
        rows = zip(columns.resource, columns.start, columns.end, strict=True)
        computed = sum(end - start for r, start, end in rows if r == core and end <= last)
        waited = sum(ours.run.waits[w].values())
        assert computed + waited == pytest.approx(last, abs=2 + ours.timeline.makespan_ps - last)


ALONE = FLAT | {"backup": {"backup": "0"}}


@pytest.mark.parametrize("method", [name for name in ALGORITHMS if name != "prague"])
def test_one_worker_alone(method: str) -> None:
    ours = watched(method, 1, 4, spare=1, options=ALONE.get(method))
    assert ours.hang is None
    assert ours.run.done == [4]


@pytest.mark.parametrize("method", ALGORITHMS)
def test_everybody(method: str) -> None:
    """Until each has done its iterations: the others do more meanwhile, where they may."""
    slow = parse_slowdowns(["worker:0:3"], 6, 15)
    ours = watched(
        method, 6, 15, slow=slow, everybody=True, spare=1, options=FLAT.get(method), port=1e12
    )
    assert min(ours.run.done) == 15
    assert ours.run.everybody_ps == ours.timeline.makespan_ps


SCRIPT = """
from tests.simulator.asynchronous.test_registry import ALGORITHMS, ran
for method in ALGORITHMS:
    ours = ran(method)
    print(method, ours.timeline.makespan_ps, ours.timeline.events, ours.run.done,
          sorted(ours.run.staleness.items()), hash(str(ours.run.history)) and str(ours.run.history))
"""


def test_the_same_picosecond_under_every_hash_seed() -> None:
    said = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            env=os.environ | {"PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }
    assert len(said) == 1
    assert len(said.pop().splitlines()) == len(ALGORITHMS)


def test_options_as_text() -> None:
    assert load_algorithm("prague", {"group": "4", "nodes": "yes", "groups": "static"}) == Prague(
        group=4, nodes=True, groups="static"
    )
    assert load_algorithm("all-reduce") == AllReduce()


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("praque", {}, "unknown method 'praque'; did you mean prague?"),
        ("x" * 9, {}, "one of all-reduce, hierarchical, ps"),
        ("ssp", {"bound": "x"}, "option bound=x: a whole number"),
        ("ssp", {"limit": "3"}, "option 'limit': stale-synchronous has shards, bound"),
        ("ad-psgd", {"overlap": "true"}, "option overlap=true: yes or no"),
        ("hop", {"protocol": "fast"}, "option protocol=fast: one of standard, notify-ack"),
        ("nowhere:Algorithm", {}, "cannot be loaded: ModuleNotFoundError"),
        ("json:JSONDecoder", {}, "is no subclass of"),
    ],
)
def test_bad_methods(name: str, options: dict[str, str], said: str) -> None:
    with pytest.raises(TrainingError) as error:
        load_algorithm(name, options)
    assert said in str(error.value)


def test_a_method_whose_module_leaves_the_program_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "leaving.py").write_text("import sys\nsys.exit(0)\n")
    with pytest.raises(TrainingError, match="cannot be loaded: SystemExit: 0"):
        load_algorithm(f"{tmp_path}/leaving.py:Mine")


@pytest.mark.parametrize(
    ("name", "options", "workers", "said"),
    [
        ("ssp", {"bound": "-1"}, 4, "option bound=-1: at least 0"),
        ("ps", {"shards": "0"}, 4, "option shards=0: at least 1"),
        ("backup", {"backup": "4"}, 4, "option backup=4: within 0…3"),
        ("prague", {"group": "5"}, 4, "option group=5: within 2…4, there are 4 workers"),
        ("prague", {"group": "1"}, 4, "option group=1: at least 2"),
        ("local-sgd", {"steps": "0"}, 4, "option steps=0: at least 1"),
    ],
)
def test_options_out_of_bounds(name: str, options: dict[str, str], workers: int, said: str) -> None:
    with pytest.raises(TrainingError) as error:
        load_algorithm(name, options).check(workers)
    assert said in str(error.value)


class Strangers(AllReduce):
    """A method of another package."""


def test_other_packages_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"{__name__}:Strangers"
    entries = EntryPoints([EntryPoint("theirs", place, "accelarray.methods")])
    monkeypatch.setattr(
        "importlib.metadata.entry_points", lambda group: entries.select(group=group)
    )
    assert algorithm_names() == [*ALGORITHMS, "theirs"]
    assert isinstance(load_algorithm("theirs"), Strangers)
    assert isinstance(load_algorithm(place, {"algorithm": "ring"}), Algorithm)
