"""``plan --profile``: what it prints for people and for scripts, and what it says of mistakes."""

import csv
import io
import json
import time
from pathlib import Path

import pytest

from experiments.cli import main

DATA = Path(__file__).parents[2] / "data"
PROFILES = Path(__file__).parents[3] / "experiments" / "published" / "profiles"
VGG = str(PROFILES / "vgg16.txt")
GNMT_LARGE = str(PROFILES / "gnmt_large.txt")
BERT = str(DATA / "dnn_partitioning" / "bert24_training.json")
PIPEDREAM = ("--profile", VGG, "--planner", "pipedream", "--hierarchy")
MAX_LOAD = ("--profile", BERT, "--planner", "max-load")
PHAZE = (
    *("--profile", VGG, "--planner", "phaze", "--bandwidth", "4 GB/s"),
    *("--micro-batches", "8", "--memory", "32 GB"),
)


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[str, str]:
    assert main(["plan", *args]) == 0
    return capsys.readouterr()


def test_json_of_pipedream(capsys: pytest.CaptureFixture[str]) -> None:
    args = (*PIPEDREAM, "4@10 GB/s,4@1.25 GB/s", "--cost-model", "repo", "--activation-ratio", "1")
    out, err = run(capsys, *args, "--format", "json")
    data = json.loads(out)
    assert list(data) == ["single_s", "pipeline_s", "data_parallel_s", "stages"]
    assert data["single_s"] == pytest.approx(0.672535)
    assert data["pipeline_s"] == pytest.approx(0.06713399693333331, rel=1e-9)
    assert data["data_parallel_s"] == pytest.approx(0.1354247797, rel=1e-9)
    assert all(list(stage) == ["nodes", "replicas"] for stage in data["stages"])
    assert sum(stage["replicas"] for stage in data["stages"]) == 16
    assert len({name for stage in data["stages"] for name in stage["nodes"]}) == 40
    assert "activations between stages are counted, divided by 1" in err
    assert "no part of the plan: node1." in err


def test_the_paper_is_the_default_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, *PIPEDREAM, "16@1.25 GB/s")
    assert "cost model paper" in out
    assert "activations between stages are always counted" in out
    assert "2 minibatches in flight" in out
    assert "44.159 ms" in out
    assert not err
    assert max(map(len, out.splitlines()[1:7])) <= 80
    repo, _ = run(capsys, *PIPEDREAM, "16@1.25 GB/s", "--cost-model", "repo")
    assert "activations between stages are not counted" in repo


def test_csv_has_a_line_for_each_layer(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(capsys, *PIPEDREAM, "16@1.25 GB/s", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 40
    assert rows[0] == {"stage": "0", "replicas": "15", "node": "node2"}


def test_straight_fewer_and_memory(capsys: pytest.CaptureFixture[str]) -> None:
    args = (*PIPEDREAM, "8@1 GB/s", "--cost-model", "repo", "--format", "json")
    straight = json.loads(run(capsys, *args, "--straight")[0])
    assert [stage["replicas"] for stage in straight["stages"]] == [1] * 8
    usual = json.loads(run(capsys, *args)[0])
    fewer = json.loads(run(capsys, *args, "--fewer")[0])
    tight = json.loads(run(capsys, *args, "--memory", "2 GB")[0])
    assert fewer["pipeline_s"] <= usual["pipeline_s"] < straight["pipeline_s"]
    assert tight["pipeline_s"] > usual["pipeline_s"]
    said = "Memory counts machines that stay idle as stages behind"
    for more, told in ((["--fewer"], True), ([], False)):
        assert (said in run(capsys, *args, "--memory", "2 GB", *more)[1]) is told


@pytest.mark.parametrize(
    ("model", "pipeline_s", "told"), [("paper", 4e-3, False), ("repo", 7e-3, True)]
)
def test_of_several_inputs_the_program_begins_with_the_first(
    model: str, pipeline_s: float, told: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """a and b (1 and 3 ms) lead to c (4 ms): the best two stages are a b and c."""
    rest = "backward_compute_time=0.0, activation_size=0.0, parameter_size=1000000000.0"
    times = {"a": 1.0, "b": 3.0, "c": 4.0}
    nodes = [f"{n} -- Op() -- forward_compute_time={t}, {rest}" for n, t in times.items()]
    path = tmp_path / "two.txt"
    path.write_text("\n".join([*nodes, "\ta -- c", "\tb -- c", ""]))
    words = ["--profile", str(path), "--planner", "pipedream", "--hierarchy", "2@1 GB/s"]
    out, err = run(capsys, *words, "--cost-model", model, "--format", "json")
    assert json.loads(out)["pipeline_s"] == pytest.approx(pipeline_s)
    assert ("a plan begins with the first of several inputs" in err) is told


def test_json_of_max_load(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = run(capsys, *MAX_LOAD, "--devices", "6", "--format", "json")
    data = json.loads(out)
    assert data["max_load_s"] == pytest.approx(41.7458125e-3)
    assert data["one_device_s"] == pytest.approx(217.813e-3)
    assert data["accelerators_only_s"] == pytest.approx(41.7458125e-3)
    assert max(one["load_s"] for one in data["devices"]) == data["max_load_s"]
    assert data["exact"] is True
    assert data["notes"] == ["maxCPUs 1 of the file takes part; --cpus 0 leaves CPUs out."]
    assert data["notes"][0] in err
    table, _ = run(capsys, *MAX_LOAD, "--devices", "6", "--cpus", "0")
    assert "41.7458 ms, the least of all contiguous splits" in table
    assert "maxCPUs" not in table


def test_max_load_under_another_memory(capsys: pytest.CaptureFixture[str]) -> None:
    args = (*MAX_LOAD, "--devices", "6", "--memory")
    tight = json.loads(run(capsys, *args, "650 MB", "--format", "json")[0])
    assert tight["max_load_s"] == pytest.approx(42.0078125e-3)
    assert tight["accelerators_only_s"] is None
    assert "Accelerators only: none fits their memory." in run(capsys, *args, "650 MB")[0]
    assert main(["plan", *args, "1 MB", "--cpus", "0"]) == 2
    assert "no split over 6 accelerators and 0 CPUs fits 1e+06 bytes" in capsys.readouterr().err


def test_phaze(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(run(capsys, *PHAZE, "--devices", "4", "--format", "json")[0])
    assert list(data) == ["batch_s", "slowest_stage_s", "pipelines", "stages", "notes"]
    assert len({name for stage in data["stages"] for name in stage["nodes"]}) == 40
    more = (*PHAZE, "--devices", "4", "--optimizer", "adam", "--recompute", "stages:all")
    out, _ = run(capsys, *more)
    assert "A batch takes" in out


def test_phazes_own_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    node = {"optimalLatencyFw": 0.01, "optimalLatencyBw": 0.02}
    node |= {"parameterSize": 2e8, "activationSize": 1e9}
    edges = [{"sourceId": i, "destId": i + 1, "communicationCost": 16e6} for i in range(23)]
    data = {"nodes": {"1": [node | {"id": i} for i in range(24)]}, "edges": {"1": edges}}
    path = tmp_path / "toy.json"
    path.write_text(json.dumps(data))
    args = ("--profile", str(path), "--planner", "phaze", "--devices", "8")
    rest = ("--bandwidth", "4294967296 B/s", "--micro-batches", "512", "--memory", "32 GB")
    out, _ = run(capsys, *args, *rest, "--format", "json")
    assert json.loads(out)["batch_s"] == pytest.approx(48.596943, rel=1e-6)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--profile", VGG, "--planner", "accpar"), "pipedream, max-load or phaze, not by accpar"),
        (("--profile", VGG, "--plan", "x.json"), "not by the plan of --plan"),
        (("vgg16", *PIPEDREAM, "4@1 GB/s"), "NETWORK has no meaning with --profile"),
        ((*PIPEDREAM, "4@1 GB/s", "--array", "accpar-mixed"), "--array has no meaning"),
        ((*PIPEDREAM, "4@1 GB/s", "--batch", "64"), "--batch has no meaning with --profile"),
        ((*PIPEDREAM, "4@1 GB/s", "--strict-memory"), "--strict-memory has no meaning"),
        ((*PIPEDREAM, "4@1 GB/s", "--plot", "x.png"), "--plot has no meaning with --profile"),
        ((*PIPEDREAM, "4@1 GB/s", "--devices", "4"), "--devices has no meaning with --planner pip"),
        (
            (*MAX_LOAD, "--devices", "6", "--straight"),
            "--straight has no meaning with --planner max",
        ),
        ((*MAX_LOAD, "--devices", "6", "--cost-model", "repo"), "--cost-model has no meaning"),
        (
            ("--profile", VGG, "--planner", "pipedream"),
            'pipedream needs --hierarchy "4@10 GB/s,4@1.25 GB/s"',
        ),
        (MAX_LOAD, "max-load needs --devices"),
        (PHAZE, "phaze needs --devices"),
        ((*MAX_LOAD, "--devices", "0"), "--devices 0: must be within 1...1000000"),
        ((*MAX_LOAD, "--devices", "6", "--cpus", "-1"), "--cpus -1: must be within 0"),
        ((*PIPEDREAM, "4@1 GB/s", "--stages", "2"), "--stages has no meaning with --profile"),
        ((*PIPEDREAM, "4@1 GB/s", "--micro-batches", "2"), "--micro-batches has no meaning with"),
        ((*PHAZE, "--devices", "4", "--recompute", "0,1"), "--recompute 0,1: Phaze's placement"),
        ((*PHAZE, "--devices", "4", "--micro-batches", "x"), "--micro-batches x: must be a whole"),
        ((*PIPEDREAM, "4@1 GB"), "level '4@1 GB': 'GB' is not a unit of B/s"),
        ((*PIPEDREAM, "0@1 GB/s"), "level '0@1 GB/s' must be 1...1024"),
        ((*PIPEDREAM, "4@1 GB/s", "--activation-ratio", "0"), "--activation-ratio 0.0: must be"),
        ((*PIPEDREAM, "4@1 GB/s", "--activation-ratio", "nan"), "--activation-ratio nan: must"),
        ((*PIPEDREAM, "4@1 GB/s", "--memory", "1 parsec"), "--memory '1 parsec': 'parsec' is not"),
        ((*PIPEDREAM, "41@1 GB/s", "--straight"), "cut into 40 at most; take fewer devices"),
        ((*PIPEDREAM, "4@1 GB/s", "--output", "no/such/x"), "cannot be written"),
        (
            ("--profile", BERT, "--planner", "pipedream", "--hierarchy", "4@1 GB/s"),
            "a node is like",
        ),
        (
            ("--profile", VGG, "--planner", "max-load", "--devices", "6"),
            "txt: not valid JSON",
        ),
        (("--profile", "x", "--planner", "max-load", "--devices", "6"), "x: cannot be read"),
        (("lenet", "--planner", "owt", "--hierarchy", "4@1 GB/s"), "--hierarchy belongs to --prof"),
        (("lenet", "--planner", "owt", "--straight"), "--straight belongs to --profile"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], args: tuple[str, ...], said: str) -> None:
    assert main(["plan", *args]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert not out
    assert len(err.splitlines()) == 1


def test_the_times_that_were_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    started = time.process_time()
    run(capsys, *PIPEDREAM, "16@1.25 GB/s")
    assert time.process_time() - started < 2
    for hierarchy in ("16@1.25 GB/s", "4@10 GB/s,4@1.25 GB/s"):
        started = time.process_time()
        args = ("--profile", GNMT_LARGE, "--planner", "pipedream", "--hierarchy", hierarchy)
        run(capsys, *args)
        assert time.process_time() - started < 20
