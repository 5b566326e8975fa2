"""The commands about one step: ``plan``, ``simulate``, ``compare``, ``timeline``."""

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from experiments.cli import main
from experiments.studies.case import Case, plan_of, step_of
from hardware import load_array
from planners import predict
from simulator import DEPLOYED, shares
from workloads import load_network

LENET = load_network("lenet")
SMALL = ("--set", "devices.0.count=2", "--set", "devices.1.count=2")
ARRAY = load_array("accpar-mixed", SMALL[1::2])
DEPLOYED_8 = ("--array", "tpu-v3-8", "--execution", "deployed")


def out(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(args) == 0
    return capsys.readouterr().out


def as_json(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out(capsys, *args, "--format", "json"))
    return found


def test_a_published_step_is_what_the_planner_predicts(capsys: pytest.CaptureFixture[str]) -> None:
    found = as_json(capsys, "simulate", "lenet", "--planner", "accpar", *SMALL)
    case = Case(LENET, "accpar", ARRAY, 512)
    plan, timeline = step_of(case)
    assert found["predicted_s"] == predict(LENET, plan, ARRAY)
    assert found["predicted_s"] == pytest.approx(found["iteration_s"])
    assert found["iteration_s"] == timeline.iteration_s
    assert (found["computing"], found["communicating"], found["waiting"]) == shares(timeline)
    assert (found["exact"], found["gap"]) == (True, None)
    assert (found["memory"], found["fits"], found["idle_cores"]) == ([], None, None)
    table = out(capsys, "simulate", "lenet", "--planner", "accpar", *SMALL)
    assert "planner's prediction" in table
    assert "memory" not in table


def test_a_deployed_step_has_memory_and_no_prediction(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("simulate", "lenet", "--planner", "owt", *DEPLOYED_8, "--batch", "5")
    found = as_json(capsys, *args)
    _, timeline = step_of(Case(LENET, "owt", load_array("tpu-v3-8"), 5, execution=DEPLOYED))
    assert found["predicted_s"] is None
    assert found["execution"] == "deployed"
    assert found["idle_cores"] == timeline.idle_cores
    assert [device["fits"] for device in found["memory"]] == [True]
    assert found["peak_memory_bytes"] == found["memory"][0]["peak_bytes"]
    table = out(capsys, *args)
    assert "planner's prediction" not in table
    assert f"{timeline.idle_cores} of 8" in table
    assert "memory, tpu-v3" in table


def test_simulate_says_what_does_not_fit(capsys: pytest.CaptureFixture[str]) -> None:
    tiny = ("--set", "devices.0.hbm.capacity=1 MiB")
    args = ["simulate", "lenet", "--planner", "owt", *DEPLOYED_8, *tiny]
    assert main([*args, "--format", "json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert found["fits"] is False
    warning, *advice = found["warnings"]
    *singly, several = advice
    assert all(" frees " in said for said in singly)
    assert "accelarray fit tries several together" in several
    assert warning.startswith("lenet under owt does not fit in the memory of tpu-v3-8")
    assert f"accelarray: warning: {warning}" in captured.err
    assert main([*args, "--strict-memory"]) == 2
    assert "does not fit" in capsys.readouterr().err


def test_the_objective_and_the_table_reach_the_planner(capsys: pytest.CaptureFixture[str]) -> None:
    array = ("--array", "hypar-16", "--batch", "256")
    for objective, communication in (("traffic", "printed"), ("traffic", "plotted")):
        options = ("--objective", objective, "--communication", communication)
        found = as_json(capsys, "plan", "hypar-sconv", "--planner", "hypar", *array, *options)
        case = Case(
            load_network("hypar-sconv"),
            "hypar",
            load_array("hypar-16"),
            256,
            objective,
            communication,
        )
        levels = plan_of(case).levels() or []
        assert found["levels"] == [[str(kind) for kind in split.types] for split in levels]
        assert found["communication"] == communication
        assert found["objective"] == objective


def test_a_plan_is_of_the_array_as_the_model_runs_it(capsys: pytest.CaptureFixture[str]) -> None:
    boards = as_json(
        capsys,
        *("plan", "lenet", "--planner", "owt", "--array", "tpu-v3-pod"),
        *("--execution", "published"),
    )
    cores = as_json(
        capsys,
        *("plan", "lenet", "--planner", "owt", "--array", "tpu-v3-pod"),
        *("--execution", "deployed"),
    )
    assert (len(boards["levels"]), len(cores["levels"])) == (8, 11)


def test_compare_names_two_steps(capsys: pytest.CaptureFixture[str]) -> None:
    args = ("compare", "lenet", "--planners", "owt,accpar", *SMALL)
    found = as_json(capsys, *args)
    seconds = [step_of(Case(LENET, p, ARRAY, 512))[1].iteration_s for p in ("owt", "accpar")]
    assert found["iteration_s"] == pytest.approx(seconds)
    assert found["difference_s"] == pytest.approx(seconds[1] - seconds[0])
    assert sum(row["difference_s"] for row in found["phases"]) == pytest.approx(
        found["difference_s"]
    )
    head = out(capsys, *args).splitlines()[0]
    assert head == f"lenet on {ARRAY.name}, batch 512, published"
    deployed = out(capsys, "compare", "lenet", "--planners", "owt,accpar", *DEPLOYED_8)
    assert deployed.splitlines()[0] == "lenet on tpu-v3-8, batch 512, deployed"


def test_compare_draws_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plot = tmp_path / "both.svg"
    out(capsys, "compare", "lenet", "--planners", "owt,accpar", *SMALL, "--plot", str(plot))
    text = plot.read_text()
    for planner in ("owt", "accpar"):
        assert f"lenet, {planner} on {ARRAY.name}, batch 512, published: " in text


@pytest.mark.parametrize(
    ("planners", "words"),
    [
        ("owt", "name two different ones, as owt,accpar"),
        ("owt,owt", "name two different ones"),
        ("owt,accpar,hypar", "name two different ones"),
        ("owt,acpar", "did you mean accpar"),
    ],
)
def test_compare_takes_two_planners(
    planners: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", "lenet", "--planners", planners]) == 2
    assert words in capsys.readouterr().err


def test_a_timelines_file_is_what_its_name_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    args = ("timeline", "lenet", "--planner", "owt", *SMALL)
    files = {name: tmp_path / f"t.{name}" for name in ("csv", "json", "json.gz", "svg")}
    for path in files.values():
        assert out(capsys, *args, "--output", str(path)) == ""
    with files["csv"].open() as lines:
        assert len(list(csv.DictReader(lines))) > 10
    about = json.loads(files["json"].read_text())["otherData"]
    _, timeline = step_of(Case(LENET, "owt", ARRAY, 512))
    assert about["network"] == "lenet"
    assert about["iteration_ps"] == timeline.iteration_ps
    assert about["folded"] is True
    assert json.loads(gzip.decompress(files["json.gz"].read_bytes()))["otherData"] == about
    assert f"lenet, owt on {ARRAY.name}, batch 512, published: " in files["svg"].read_text()


def test_chosen_boards_are_simulated_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.json"
    args = ("timeline", "lenet", "--planner", "owt", *SMALL, "--devices", "0,3")
    out(capsys, *args, "--output", str(path))
    assert json.loads(path.read_text())["otherData"]["folded"] is False
