"""``accelarray explain`` as people and programs read it."""

import json
from pathlib import Path

import pytest

from experiments.cli import main
from experiments.studies.step_numbers import ALL_COMPUTED, CONVENTION

RING = ["--array", "ring-8", "--execution", "deployed", "--overlap", "none"]
CASES = [
    ["alexnet", "--planner", "accpar"],
    ["lenet", "--planner", "accpar", "--array", "tpu-v2-8", "--execution", "deployed"],
    ["lenet", "--planner", "owt", *RING, "--set", "network.latency=1 ms"],
]


@pytest.mark.parametrize("args", CASES)
def test_json_adds_up(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *args, "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    whole_ps = round(data["iteration_s"] * 1e12)
    path = data["critical_path"]
    assert sum(s["end_ps"] - s["start_ps"] for s in path["segments"]) == whole_ps
    assert sum(sum(s["bounds_ps"].values()) for s in path["segments"]) == whole_ps
    assert sum(s["share"] for s in path["segments"]) == pytest.approx(1)
    for sums in (path["kinds"], path["layers"]):
        assert sum(row["seconds"] for row in sums) == pytest.approx(data["iteration_s"])
    assert sum(path["bounds_s"].values()) == pytest.approx(data["iteration_s"])
    spent = [row[k] for row in data["layers"] for k in ("computing_s", "exposed_s", "waiting_s")]
    assert sum(spent) == pytest.approx(data["iteration_s"])
    assert [knob["what"] for knob in data["twice_as_fast"]] == ["links", "HBM", "cores"]
    for knob in data["twice_as_fast"]:
        speedup = data["iteration_s"] / knob["same_plan_s"]
        assert knob["same_plan_speedup"] == pytest.approx(speedup)
        assert (knob["reason"] is None) == (
            max(abs(1 - 1 / knob[f"{p}_speedup"]) for p in ("same_plan", "replanned")) > 1e-3
        )
    assert len(data["set"]) == args.count("--set")


def test_the_table_and_the_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "why.svg"
    assert main(["explain", *CASES[2], "--plot", str(plot)]) == 0
    text = capsys.readouterr().out
    for words in ("Critical path", "Busiest links", "Twice as fast", "network.latency=1 ms"):
        assert words in text
    assert "communication: latency" in text
    assert "│ conv (2) " in text  # of a kind, how many layers
    drawing = plot.read_text()
    for words in ("lenet, owt on ring-8, network.latency=1 ms", "critical path: time", "latency 9"):
        assert words in drawing


def test_a_single_core_can_be_explained(capsys: pytest.CaptureFixture[str]) -> None:
    one = ["--set", "devices.0.count=1"]
    for execution in ("published", "deployed"):
        args = ["lenet", "--planner", "accpar", "--array", "accpar-homogeneous", *one]
        assert main(["explain", *args, "--execution", execution]) == 0
        assert "compute, limited by" in capsys.readouterr().out


GPT = ["gpt3-125m:layers=2:seq=128", "--array", "tpu-v3-8", "--batch", "16"]
GPT += ["--parallel", "dp=2,pp=2,tp=2", "--micro-batch", "2"]
ANSWERS = ["samples_per_s", "tokens_per_s", "share_of_peak", "tokens_per_s_per_chip"]
ANSWERS += ["computed_share_of_peak", "exposed_by_axis_s", "peak_memory_bytes", "fits", "memory"]


def test_answers_are_simulate_s(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    found = []
    for command in ("simulate", "explain"):
        assert main([command, *GPT, "--format", "json"]) == 0
        found.append(json.loads(capsys.readouterr().out))
    step, why = found
    assert {key: why[key] for key in ANSWERS} == {key: step[key] for key in ANSWERS}
    assert why["pipeline"]["bubble"] == step["pipeline"]["bubble"]
    assert next(one["what"] for one in why["frees"]).startswith("--")
    assert main(["simulate", *GPT]) == 0
    shown = capsys.readouterr().out
    assert main(["explain", *GPT]) == 0
    text = capsys.readouterr().out
    rows = [line.split() for line in text.splitlines()]
    names = ("samples/s", "tokens/s", "MFU", "HFU", "exposed communication,", "of it")
    for name in names:
        wanted = [line.split() for line in shown.splitlines() if line.startswith(f"│ {name}")]
        assert wanted
        assert all(row in rows for row in wanted)
    share = f"{step['pipeline']['bubble']:.1%} of the busiest stage's work"
    (row,) = [line for line in text.splitlines() if line.startswith("│ bubble")]
    assert share in row
    for out in (shown, text):
        assert CONVENTION in out
        assert ALL_COMPUTED in out
    for one in why["frees"]:
        (line,) = [line for line in text.splitlines() if line.startswith(f"│ {one['what']} ")]
        assert (one["reason"] or ("yes" if one["fits"] else "no")) in line


def test_a_model_without_memory_frees_none(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", *CASES[0], "--format", "json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["memory"], data["frees"], data["fits"]) == ([], [], None)
    assert data["computed_share_of_peak"] > 0
    assert main(["explain", *CASES[0]]) == 0
    assert "free memory" not in capsys.readouterr().out
