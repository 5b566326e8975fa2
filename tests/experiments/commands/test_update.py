"""``--update`` on the command line."""

import json
from pathlib import Path

import pytest

from experiments.cli import main
from experiments.pictures.plan_map import plot_plan
from hardware import load_array
from planners import Plan
from simulator import DEPLOYED

STEP = ("alexnet", "--planner", "data_parallel", "--array", "tpu-v3-8", "--batch", "64")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words]) == 0
    return capsys.readouterr().out


def seconds(capsys: pytest.CaptureFixture[str], *words: str) -> float:
    return float(json.loads(printed(capsys, *words, "--format", "json"))["iteration_s"])


def test_a_plan_with_updates_is_shown_written_and_run_again(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    shown = printed(capsys, "plan", *STEP, "--update", "sharded")
    assert "layer" in shown
    assert "update" in shown
    assert shown.count("sharded") == 8
    assert max(map(len, shown.splitlines())) <= 80
    assert "update" not in printed(capsys, "plan", *STEP)
    rows = printed(capsys, "plan", *STEP, "--update", "sharded", "--format", "csv").splitlines()
    assert rows[0].split(",")[-1] == "update"
    file = tmp_path / "plan.json"
    file.write_text(printed(capsys, "plan", *STEP, "--update", "sharded", "--format", "json"))
    assert json.loads(file.read_text())["updates"] == ["sharded"] * 8
    given = ("simulate", "alexnet", "--plan", str(file), *STEP[3:])
    own = seconds(capsys, *given)
    assert own == seconds(capsys, "simulate", *STEP, "--update", "sharded")
    replicated = seconds(capsys, "simulate", *STEP)
    assert replicated == seconds(capsys, *given, "--update", "replicated") > own


def test_the_map_marks_layers_whose_update_is_shared_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = printed(capsys, "plan", *STEP, "--update", "sharded", "--format", "json")
    plan, array = Plan.from_json(json.loads(said)), DEPLOYED.planned(load_array("tpu-v3-8"))
    (axes,) = plot_plan(plan, array).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        f"{name} *" for name in plan.nodes
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("simulate", *STEP, "--update", "auto", "--mode", "inference"), "updates no weights"),
        (("train", "lenet", "--workers", "2", "--method", "d-psgd", "--update", "auto"), "method"),
    ],
)
def test_where_it_means_nothing_is_one_line_and_exit_code_two(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert main([*words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--update auto" in line
    assert said in line


def test_a_sweep_over_updates(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("sweep", "--networks", "alexnet", "--planners", "data_parallel", "--array", "tpu-v3-8")
    vary = ("--vary", "update=replicated,sharded", "--format", "json")
    rows = json.loads(printed(capsys, *words, *vary))
    first, second = (row["iteration_s"] for row in rows)
    assert first > second


@pytest.mark.parametrize("command", ["speedup", "explain", "timeline", "compare"])
def test_every_command_with_a_step_takes_it(
    capsys: pytest.CaptureFixture[str], command: str, tmp_path: Path
) -> None:
    words = {
        "speedup": ("--networks", "lenet", "--planners", "accpar"),
        "explain": ("lenet", "--planner", "accpar"),
        "timeline": ("lenet", "--planner", "accpar", "--output", str(tmp_path / "t.svg")),
        "compare": ("lenet", "--planners", "accpar,owt"),
    }[command]
    printed(capsys, command, *words, "--array", "tpu-v3-8", "--update", "sharded")
