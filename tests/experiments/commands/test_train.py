"""``accelarray train``: its JSON, tables, pictures, traces, comparisons, and bad input."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from experiments.cli import main
from simulator.asynchronous.registry import ALGORITHMS
from tests import trace_checker

BASE = ["train", "lenet", "--array", "ring-8", "--workers", "8", "--iterations", "6"]


def result(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert main([*BASE, *words, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_json_has_what_scripts_rely_on(capsys: pytest.CaptureFixture[str]) -> None:
    found = result(capsys, "--method", "ad-psgd", "--slowdown", "worker:0:5", "--seed", "3")
    assert len(found["workers"]) == 8
    assert sum(found["workers"]) == pytest.approx(found["iterations_per_s"])
    assert found["iterations_per_s"] == pytest.approx(sum(found["done"]) / found["time_s"])
    assert min(found["workers"]) == found["workers"][0]
    assert sum(found["staleness"].values()) == sum(found["done"])
    assert sum(found["gaps"].values()) == sum(found["done"])
    assert set(found["waiting"]) == {"an average"}
    assert all(moved > 0 for moved in found["bytes"].values())
    assert found["hang"] is None
    assert found["learning"] is None
    assert found["slowdown"] == ["worker:0:5"]
    assert found["seed"] == 3
    assert found["graph"] == "ring"
    assert found["as_recalled"]


@pytest.mark.parametrize("method", [*ALGORITHMS, "prague:groups=static", "hop:tokens=3:backup=1"])
def test_every_method_as_a_table(method: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--array", "tpu-v3-8", "--method", method]
    assert main([*BASE, *words, "--slowdown", "random:0.2:4"]) == 0
    out = capsys.readouterr().out
    assert f"lenet, {method}" in out
    assert "a second, all together" in out
    assert max(map(len, out.splitlines())) <= 80


def test_time_to_everybodys_iterations(capsys: pytest.CaptureFixture[str]) -> None:
    slow = ["--method", "async-ps", "--slowdown", "worker:0:50"]
    average, everybody = result(capsys, *slow), result(capsys, *slow, "--until", "everybody")
    assert average["everybody_s"] is None
    assert everybody["everybody_s"] == everybody["time_s"] > average["time_s"]
    assert min(everybody["done"]) == 6


def test_learning(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--method", "all-reduce", "--learn", "quadratic", "--loss", "5"]
    found = result(capsys, *words)["learning"]
    assert found["problem"] == "quadratic"
    assert found["curve"][0][0] == 0
    assert found["curve"][-1][1] == found["loss"] < found["curve"][0][1]
    first = next(at_s for at_s, loss in found["curve"] if loss <= 5)
    assert found["time_to_target_s"] == first
    faster = result(capsys, *words, "--rate", "0.2")["learning"]
    assert faster["rate"] == 0.2
    assert faster["loss"] < found["loss"]
    assert main([*BASE, *words]) == 0
    assert "time to 5" in capsys.readouterr().out


def test_a_comparison_is_on_the_same_draws(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["--slowdown", "random:0.2:6", "--learn", "logistic", "--graph", "complete"]
    both = result(capsys, "--compare", "all-reduce,d-psgd", *words)["methods"]
    assert [one["method"] for one in both] == ["all-reduce", "d-psgd"]
    assert [one["graph"] for one in both] == [None, "complete"]
    alone = result(capsys, "--method", "d-psgd", *words)
    assert alone == both[1]
    picture = tmp_path / "both.png"
    assert main([*BASE, "--compare", "all-reduce,d-psgd", *words, "--plot", str(picture)]) == 0
    out = capsys.readouterr().out
    assert "d-psgd" in out
    assert "not the network that is timed" in out
    first = picture.read_bytes()
    assert main([*BASE, "--compare", "all-reduce,d-psgd", *words, "--plot", str(picture)]) == 0
    assert picture.read_bytes() == first


def test_a_trace_that_viewers_read(tmp_path: Path) -> None:
    path = tmp_path / "train.json"
    assert main([*BASE, "--method", "prague", "--trace", str(path)]) == 0
    tracks = trace_checker.check(path)
    steps = [one for track in tracks for one in track.slices if one["layer"] == "local step"]
    assert len(steps) >= 8 * 6
    assert any(one["layer"] == "models" for track in tracks for one in track.slices)
    assert trace_checker.read(path)["otherData"]["method"] == "prague"


def test_a_hang_is_named_and_ends(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*BASE, "--method", "all-reduce", "--slowdown", "die:3:1e-4", "--format", "json"]
    assert main(words) == 0
    found = capsys.readouterr()
    hang = json.loads(found.out)["hang"]
    assert hang["dead"] == [3]
    assert hang["waits"]["0"] == {"for": "the others", "of": [3]}
    assert "all-reduce: it hangs at" in found.err
    assert main([*BASE, "--compare", "all-reduce,async-ps", "--slowdown", "die:3:1e-4"]) == 0
    assert "hangs" in capsys.readouterr().out


def test_what_is_used_otherwise_than_one_may_think_is_said(
    capsys: pytest.CaptureFixture[str],
) -> None:
    few = ["train", "lenet", "--array", "ring-8", "--workers", "4", "--iterations", "2"]
    assert main([*few, "--method", "all-reduce"]) == 0
    assert (
        "the first 4 boards of ring-8 are workers; 4 have nothing to do" in capsys.readouterr().err
    )
    assert main([*BASE, "--method", "ps:shards=2"]) == 0
    assert "parameter servers beside workers: 2;" in capsys.readouterr().err


def test_csv_has_a_line_for_each_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, "--compare", "all-reduce,prague", "--format", "csv"]) == 0
    lines = [*csv.DictReader(io.StringIO(capsys.readouterr().out))]
    assert [line["method"] for line in lines] == ["all-reduce", "prague"]
    assert main([*BASE, "--compare", "all-reduce,prague", "--format", "json"]) == 0
    for line, one in zip(lines, json.loads(capsys.readouterr().out)["methods"], strict=True):
        assert float(line["iterations_per_s"]) == one["iterations_per_s"]
        assert float(line["slowest_per_s"]) == min(one["workers"])
        assert int(line["workers"]) == len(one["workers"])
        whole_s = one["time_s"] * len(one["workers"])
        assert float(line["waiting"]) == pytest.approx(sum(one["waiting"].values()) / whole_s)
        assert int(line["gap"]) == max(map(int, one["gaps"]))
        assert not line["hang"]
        assert "learning" not in line


def test_varied_values_are_shown_as_they_are_asked(capsys: pytest.CaptureFixture[str]) -> None:
    vary = "topology.bandwidth=10 GB/s,100 GB/s"
    assert main([*BASE, "--vary", vary]) == 0
    said = capsys.readouterr().out
    assert "│ 100 GB/s " in said
    assert "iterations/s" in said


def test_a_trace_is_of_one_method(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, "--compare", "all-reduce,ps", "--trace", "x.json"]) == 2
    assert "--trace: of one method" in capsys.readouterr().err


PIPED = ["train", "lenet", "--method", "pipeline", "--array", "ring-8", "--workers", "2"]
PIPED += ["--set", "devices.0.count=2", "--iterations", "12"]


def test_a_pipelines_stages_are_workers(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--learn", "quadratic", "--loss", "5"]
    assert main([*PIPED, *words, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["versions"] == [2, 1]
    assert found["staleness"] == {"0": 13, "1": 11}
    assert sum(found["workers"]) == pytest.approx(found["iterations_per_s"])
    assert found["iterations_per_s"] == pytest.approx(2 * 12 / found["time_s"])
    assert found["samples_per_s"] == pytest.approx(12 * found["batch"] / found["time_s"])
    assert found["notes"] == []
    assert found["learning"]["curve"][-1][1] < found["learning"]["curve"][0][1]
    assert main([*PIPED, *words]) == 0
    out = capsys.readouterr().out
    assert "versions of the weights" in out
    assert "time to 5" in out


def test_a_pipeline_has_all_boards(capsys: pytest.CaptureFixture[str]) -> None:
    """Other methods have a worker on each, and leave the others idle."""
    found = result(capsys, "--method", "pipeline", "--workers", "2")
    (note,) = found["notes"]
    assert note.startswith("all 8 boards of ring-8 are in 2 stages")


def test_stages_are_for_pipelines(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*BASE, "--method", "all-reduce", "--stages", "2"]) == 2
    assert "--method pipeline" in capsys.readouterr().err


def test_what_diverges_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """Gradients of seven versions before, at a rate that would do without."""
    words = ["--method", "async-ps", "--learn", "quadratic", "--rate", "1.5", "--iterations", "200"]
    assert main([*BASE, *words, "--format", "json"]) == 0
    found = capsys.readouterr()
    assert json.loads(found.out)["learning"]["loss"] in (None, pytest.approx(1e300, rel=1e300))
    assert "async-ps: learning diverged; with gradients that stale" in found.err
    assert "RuntimeWarning" not in found.err


def test_the_page_names_the_command_as_typed(tmp_path: Path) -> None:
    page = tmp_path / "p.html"
    words = ["papers", "train", "lenet", "--array", "hypar-16", "--workers", "2"]
    words += ["--execution", "deployed", "--overlap", "none", "--report", str(page)]
    assert main(words) == 0
    assert f"accelarray {' '.join(words)}" in page.read_text()


@pytest.mark.parametrize("kept", [False, True])
def test_a_method_that_the_wires_cannot_do_is_left_out(
    kept: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a ring of eight there is nothing to do node by node."""
    store = ["--store", str(tmp_path / "runs.store")] if kept else []
    several = [*BASE, "--compare", "hierarchical,all-reduce", *store, "--format", "json"]
    assert main(several) == 0
    said = capsys.readouterr()
    assert [one["method"] for one in json.loads(said.out)["methods"]] == ["all-reduce"]
    assert "hierarchical is left out, ring-8 cannot do it: hierarchical needs" in said.err
    assert main([*BASE, "--compare", "hierarchical", *store]) == 2
    assert "hierarchical needs" in capsys.readouterr().err


def test_a_varied_loss_is_the_target_beside_what_is_reached(
    capsys: pytest.CaptureFixture[str],
) -> None:
    vary = [*BASE, "--learn", "logistic", "--vary", "loss=0.4,0.6"]
    assert main([*vary, "--format", "csv"]) == 0
    lines = [*csv.DictReader(io.StringIO(capsys.readouterr().out))]
    assert [float(line["target_loss"]) for line in lines] == [0.4, 0.6]
    assert lines[0]["loss"] == lines[1]["loss"]
    assert main(vary) == 0
    assert "┃ target ┃" in capsys.readouterr().out
    assert main([*BASE, "--learn", "logistic", "--vary", "seed=1,2"]) == 0
    assert "to target" not in capsys.readouterr().out


def test_a_typed_slowdown_takes_the_files_place(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As every other flag; "none" is a value, too."""
    path = tmp_path / "study.toml"
    path.write_text('slowdown = ["worker:0:2"]\n', encoding="utf-8")
    config = ["--config", str(path)]
    assert result(capsys, *config)["slowdown"] == ["worker:0:2"]
    typed = result(capsys, *config, "--slowdown", "worker:1:5", "--slowdown", "worker:2:3")
    assert typed["slowdown"] == ["worker:1:5", "worker:2:3"]
    assert result(capsys, *config, "--slowdown", "none")["slowdown"] == ["none"]


def test_varied_slowdowns_multiply_those_that_are_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    vary = ["--vary", "slowdown=none,worker:0:2"]
    assert main([*BASE, *vary, "--slowdown", "worker:1:10", "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    alone, both = ({row["slowdown"]: row["time_s"] for row in rows}[key] for key in SLOW)
    assert alone == both == result(capsys, "--slowdown", "worker:1:10")["time_s"]


SLOW = ("none", "worker:0:2")


def test_a_dead_worker_computes_until_it_dies(capsys: pytest.CaptureFixture[str]) -> None:
    """A step that takes a thousand times as long, broken off after a nanosecond."""
    slow = ["--slowdown", "worker:0:1000", "--slowdown", "die:0:1e-9"]
    found = result(capsys, "--method", "async-ps", *slow)
    steps_s = sum(found["done"][1:]) * found["step_s"]
    assert found["computing_s"] < steps_s + 8 * found["step_s"]
    assert found["steps_s"] == [found["step_s"]] * 8
