"""Grids of training runs: each row is the run that its values describe."""

import json
from pathlib import Path

import pytest

from experiments.cli import main
from experiments.studies.running.store import Store

BASE = ["train", "lenet", "--array", "ring-8", "--workers", "8", "--iterations", "6"]


def rows(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    assert main([*BASE, *words, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, list)
    return found


def test_methods_and_slowdowns(capsys: pytest.CaptureFixture[str]) -> None:
    vary = ["--vary", "method=all-reduce,prague:filter=2", "--vary", "slowdown=none,worker:0:5"]
    found = rows(capsys, *vary)
    assert [(row["method"], row["slowdown"]) for row in found] == [
        ("all-reduce", "none"),
        ("all-reduce", "worker:0:5"),
        ("prague:filter=2", "none"),
        ("prague:filter=2", "worker:0:5"),
    ]
    alone = [*BASE, "--method", "prague:filter=2", "--slowdown", "worker:0:5", "--format", "json"]
    assert main(alone) == 0
    one = json.loads(capsys.readouterr().out)
    assert found[3]["iterations_per_s"] == one["iterations_per_s"]
    assert found[3]["time_s"] == one["time_s"]
    assert found[3]["slowest_per_s"] == min(one["workers"])
    assert found[3]["gap"] == max(map(int, one["gaps"]))
    assert found[0]["hang"] is None


def test_sizes_seeds_and_values_of_the_array(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, "--vary", "workers=2,4", "--vary", "seed=0,1", "--learn", "logistic")
    assert [(row["workers"], row["seed"]) for row in found] == [(2, 0), (2, 1), (4, 0), (4, 1)]
    assert found[0]["loss"] != found[1]["loss"]
    slow, fast = rows(capsys, "--vary", "network.bandwidth=1 Gbit/s,10 Gbit/s")
    assert float(str(fast["time_s"])) < 0.2 * float(str(slow["time_s"]))
    graphs = rows(capsys, "--method", "d-psgd", "--vary", "graph=ring,complete")
    assert graphs[0]["time_s"] != graphs[1]["time_s"]
    arrays = rows(capsys, "--vary", "array=ring-8,tpu-v3-8")
    assert [row["array"] for row in arrays] == ["ring-8", "tpu-v3-8"]


def test_nothing_is_a_number_too(capsys: pytest.CaptureFixture[str]) -> None:
    found = rows(capsys, "--array", "tpu-v3-8", "--vary", "devices.0.roofline.overhead=0 us,2 us")
    assert [next(iter(row.values())) for row in found] == [0, 2e-6]


def test_as_a_table_and_csv(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words = ["--vary", "slowdown=none,die:3:1e-4"]
    assert main([*BASE, *words]) == 0
    out = capsys.readouterr().out
    assert "lenet, 2 runs" in out
    assert "hangs" in out
    assert "worker 3 had died" in out
    assert max(map(len, [line for line in out.splitlines() if line.startswith("│")])) <= 80
    target = tmp_path / "runs.csv"
    assert main([*BASE, *words, "--output", str(target)]) == 0
    assert len(target.read_text().splitlines()) == 3


@pytest.mark.parametrize("asked", [["--vary", "seed=1,2,3"], ["--compare", "ps,ssp,hop"]])
@pytest.mark.parametrize("form", ["json", "table"])
def test_a_store_has_every_run(
    asked: list[str], form: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["train", "lenet", "--workers", "3", "--iterations", "4", *asked, "--format", form]
    words += ["--array", "tpu-v3-8", "--slowdown", "lognormal:0.5", "--learn", "quadratic"]
    store = str(tmp_path / "kept.db")
    said = []
    for more in ([], ["--store", store], ["--store", store]):
        assert main([*words, *more]) == 0
        said.append(capsys.readouterr().out)
        assert said[-1] == said[0]
    with Store(store, read_only=True) as kept:
        assert len(kept) == 3
    assert main(["results", "list", "--store", store, "--format", "json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert len({(row["method"], row["seed"]) for row in listed}) == 3
    assert {row["slowdown"] for row in listed} == {"lognormal:0.5"}


def test_learning_that_diverged_is_kept_without_a_loss(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--learn", "quadratic", "--vary", "rate=0.1,1e200", "--store", str(tmp_path / "s.db")]
    for _ in range(2):
        learned, diverged = rows(capsys, *words)
        assert isinstance(learned["loss"], float)
        assert diverged["loss"] is None
