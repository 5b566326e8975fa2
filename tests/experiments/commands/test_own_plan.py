"""A plan of one's own in a file stands for a planner; data parallelism as it is run."""

import json
import shutil
from pathlib import Path

import pytest

from experiments.cli import main

ARRAY = ("--array", "tpu-v3-8", "--batch", "64")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main([*words]) == 0
    return capsys.readouterr().out


@pytest.fixture
def own(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> str:
    """AccPar's plan in a file."""
    file = tmp_path / "own.json"
    words = ("plan", "alexnet", "--planner", "accpar", *ARRAY, "--format", "json")
    file.write_text(printed(capsys, *words))
    return str(file)


def test_a_plan_beside_a_planner(capsys: pytest.CaptureFixture[str], own: str) -> None:
    compare = ("compare", "alexnet", *ARRAY, "--format", "json")
    given = json.loads(printed(capsys, *compare, "--planners", "owt", "--plan", own))
    assert given["planners"] == ["owt", "accpar"]
    both = json.loads(printed(capsys, *compare, "--planners", "owt,accpar"))
    assert given["iteration_s"] == both["iteration_s"]


def test_plans_of_one_planner_are_told_apart_by_their_files(
    capsys: pytest.CaptureFixture[str], own: str, tmp_path: Path
) -> None:
    compare, copy = ("compare", "alexnet", *ARRAY, "--format", "json"), str(tmp_path / "copy.json")
    shutil.copy(own, copy)
    for words, names in (
        (("--planners", "accpar", "--plan", own), ["accpar", own]),
        (("--plan", own, "--plan", copy), [own, copy]),
        (("--planners", "owt", "--plan", own), ["owt", "accpar"]),
    ):
        found = json.loads(printed(capsys, *compare, *words))
        assert found["planners"] == names
        first, second = found["iteration_s"]
        assert (first == second) is ("owt" not in names)


@pytest.mark.parametrize("words", [(), ("--planners", "owt,accpar")])
def test_two_are_compared(
    capsys: pytest.CaptureFixture[str], own: str, words: tuple[str, ...]
) -> None:
    assert main(["compare", "alexnet", *ARRAY, "--plan", own, *words]) == 2
    assert "a --plan FILE stands for one" in capsys.readouterr().err


def test_fairer_baselines_are_columns(capsys: pytest.CaptureFixture[str]) -> None:
    """On like cores without a subset that is better they are data parallelism itself."""
    words = ("speedup", "--networks", "lenet", "--planners", "accpar", "--baselines", *ARRAY)
    found = json.loads(printed(capsys, *words, "--format", "json"))
    assert [row["planner"] for row in found["rows"]] == ["best_share", "best_subset", "accpar"]
    assert found["geomean"]["best_subset"] >= found["geomean"]["best_share"] >= 1.0


def test_many_planners_on_unlike_devices_fit_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ("--set", "devices.0.count=2", "--set", "devices.1.count=2", "--baselines")
    said = printed(capsys, "speedup", "--networks", "lenet", *words)
    tables = [line for line in said.splitlines() if line.startswith(("│", "┃", "┏"))]
    assert max(map(len, tables)) <= 80
    for word in ("geometric mean", "lenet", "accpar: fast alone"):
        assert word in said


def test_a_plan_for_another_array_says_so(capsys: pytest.CaptureFixture[str], own: str) -> None:
    """Of the same array with other values nothing is said: that is what one compares."""
    words = ("simulate", "alexnet", "--plan", own, "--batch", "64", "--array")
    said = "the plan was made for tpu-v3-8, and is run on tpu-v2-8"
    for array, told in (("tpu-v2-8", True), ("tpu-v3-8", False)):
        assert main([*words, array, "--set", "devices.0.hbm.bandwidth=1 TB/s"]) == 0
        assert (said in capsys.readouterr().err) is told


def test_a_plan_for_another_network_says_so(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Their layers are called alike; how large they are no plan says."""
    path = str(tmp_path / "plan.json")
    place = ["--array", "tpu-v3-8", "--batch", "64"]
    planned = ["plan", "gpt2:layers=1:seq=64", "--planner", "hypar", "--format", "json"]
    assert main([*planned, *place, "--output", path]) == 0
    for network, told in (("gpt2:layers=1:seq=128", True), ("gpt2:layers=1:seq=64", False)):
        assert main(["simulate", network, "--plan", path, *place]) == 0
        said = f"the plan was made for gpt2:layers=1:seq=64, and is run on {network}"
        assert (said in capsys.readouterr().err) is told


def test_what_of_a_plan_a_stack_overrides_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ("lenet", "--array", "h100-cluster", "--set", "nodes=1", "--batch", "64")
    path = tmp_path / "plan.json"
    assert main(["plan", *words, "--planner", "data_parallel", "--output", str(path)]) == 0
    data = json.loads(path.read_text())
    for more, said in (({}, False), ({"update_order": "arrival", "bucket_bytes": 0}, True)):
        path.write_text(json.dumps(data | more))
        capsys.readouterr()
        assert main(["simulate", *words, "--plan", str(path)]) == 0
        err = capsys.readouterr().err
        assert ("the plan's update_order is not read" in err) is said
        assert ("the plan's bucket_bytes is not read" in err) is said
