"""Planners by import path, and plans from files, on the command line."""

import json
from pathlib import Path

import pytest

from experiments.cli import main
from experiments.results.planned import AS_WRITTEN
from planners import PLANNERS
from tests.experiments.installed import install

STUDY = ["speedup", "--networks", "lenet", "--format", "json"]


def found(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, object]:
    assert main([*args, "--format", "json"]) == 0
    data: dict[str, object] = json.loads(capsys.readouterr().out)
    return data


@pytest.mark.parametrize("array", ["accpar-mixed", "accpar-homogeneous", "tpu-v3-8"])
@pytest.mark.parametrize("command", ["simulate", "explain", "plan"])
def test_a_given_plan_gives_the_step_that_its_planner_did(
    command: str, array: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Read back from what ``plan --format json`` writes: trees as well as levels."""
    file = str(tmp_path / "plan.json")
    step = ["vgg11", "--array", array]
    made = ["--planner", "accpar", "--format", "json", "--output", file]
    assert main(["plan", *step, *made]) == 0
    given, own = (
        found(capsys, command, *step, *by) for by in (("--plan", file), ("--planner", "accpar"))
    )
    knobs = "twice_as_fast"  # nothing is planned anew where the plan is given
    differ = {"wall_s", knobs, "data_parallel_s", "fast_alone_s", "notes"}
    if command == "plan":
        assert (given.pop("warnings"), own.pop("warnings")) == ([AS_WRITTEN], [])
    assert {k: v for k, v in given.items() if k not in differ} == {
        k: v for k, v in own.items() if k not in differ
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        ("[]", "not a plan"),
        ("{}", "not a plan: planner: is missing"),
        ("[" * 100_000, "not"),
        ('{"levels": 3}', "not a plan"),
        (
            '{"planner": "p", "network": "n", "batch": 1, "objective": "time", "layers": [], '
            '"levels": [' + ",".join(["[]"] * 99) + '], "cost": []}',
            "must have at most 64 items, not 99",
        ),
        (
            '{"planner": "p", "network": "lenet", "batch": 512, "objective": "time", '
            '"layers": ["a"], "levels": [["X"]], "cost": [0]}',
            "not a plan: levels.0.0: 'X': must be one of I, II",
        ),
        (
            '{"planner": "p", "network": "lenet", "batch": 512, "objective": "time", '
            '"layers": ["a"], "levels": [["I"]]}',
            "not a plan: cost: a list of 1 numbers, as levels are",
        ),
    ],
)
def test_a_file_that_is_no_plan(
    text: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(text)
    assert main(["simulate", "lenet", "--plan", str(file)]) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"accelarray: error: {file}: ")
    assert words in err


def test_a_plan_of_another_network_array_or_batch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "plan.json")
    assert main(["plan", "lenet", "--planner", "owt", "--format", "json", "--output", file]) == 0
    for change, words in (
        (["vgg11"], "the plan is for 'lenet', not for 'vgg11'"),
        (["lenet", "--array", "ring-8"], "the plan is for another number of devices"),
        (["lenet", "--batch", "64"], "gave a plan for batch 512, not 64"),
    ):
        assert main(["simulate", *change, "--plan", file]) == 2
        assert words in capsys.readouterr().err
    for both, words in (
        (["--plan", file, "--planner", "owt"], "--plan is a whole plan: leave out --planner"),
        ([], "say how the step is split: --planner P"),
    ):
        assert main(["simulate", "lenet", *both]) == 2
        assert words in capsys.readouterr().err
    assert main(["simulate", "lenet", "--plan", "/nowhere.json"]) == 2
    assert "/nowhere.json: cannot be read" in capsys.readouterr().err


def test_a_plan_of_another_network_of_the_same_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.json"
    made = ["plan", "lenet", "--planner", "owt", "--format", "json", "--output", str(file)]
    assert main(made) == 0
    file.write_text(file.read_text().replace('"fc2"', '"dense"'))
    assert main(["simulate", "lenet", "--plan", str(file)]) == 2
    words = "for another 'lenet': layer 3 is 'dense' in the plan, 'fc2' in the network"
    assert words in capsys.readouterr().err


def test_a_function_is_named_by_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_own.py").write_text("from planners.built_in import owt as plan\n")
    monkeypatch.chdir(tmp_path)
    own = found(capsys, "simulate", "lenet", "--planner", "my_own:plan")
    assert own["planner"] == "my_own:plan"
    assert (
        own["iteration_s"] == found(capsys, "simulate", "lenet", "--planner", "owt")["iteration_s"]
    )
    compared = found(capsys, *STUDY, "--planners", "owt,my_own:plan")["geomean"]
    assert isinstance(compared, dict)
    assert compared["owt"] == compared["my_own:plan"]


def test_a_broken_package_is_named_and_hinders_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    install(tmp_path, monkeypatch, "raise RuntimeError('no wonder')\n")
    said = "'outsider' of package outsider 1.0 cannot be loaded: RuntimeError: no wonder"
    assert main(["list", "planners"]) == 0
    listed = capsys.readouterr().out
    assert said in " ".join(listed.split())
    assert "accpar" in listed
    compared = found(capsys, *STUDY)["geomean"]
    assert isinstance(compared, dict)
    assert list(compared) == list(PLANNERS)  # others' planners only where they are named
    assert main([*STUDY, "--planners", "owt,outsider"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("text", "tokens"), [("1T", 1e12), ("15b", 15e9), ("2e9", 2e9)])
def test_tokens_may_be_written_short(
    text: str, tokens: float, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["simulate", "gpt2:layers=1:seq=16", "--parallel", "dp=8", "--array", "tpu-v3-8"]
    assert main([*words, "--batch", "8", "--tokens", text, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["run"]["tokens"] == tokens
    with pytest.raises(SystemExit):
        main([*words, "--batch", "8", "--tokens", "1X"])
    assert "--tokens 1X: must be a number, as 300B" in capsys.readouterr().err
