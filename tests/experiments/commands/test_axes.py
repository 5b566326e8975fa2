"""--parallel in every command that simulates, and what is wrong with axes in one message."""

import json
from pathlib import Path
from typing import Any

import pytest

import accelarray
from experiments.cli import main
from experiments.output import UsageError
from simulator import DEPLOYED

ARRAY = ["--array", "tpu-v3-8", "--batch", "16"]
STEP = ["simulate", "gpt2:seq=16", *ARRAY]


def answer(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert main([*argv, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def mistake(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main([*argv]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err.count("error:") == 1
    assert "Traceback" not in seen.err
    return " ".join(seen.err.split())


def test_a_step_by_axes(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, *STEP, "--parallel", "dp=2,pp=2,tp=2", "--micro-batch", "2")
    assert found["planner"] == "axes"
    assert found["execution"] == "deployed, dp=2 pp=2 tp=2, micro-batches of 2"
    assert found["pipeline"]["micro_batches"] == 4
    again = accelarray.simulate(
        "gpt2:seq=16", "axes", "tpu-v3-8", 16, parallel="dp=2,pp=2,tp=2", micro_batch=2
    )
    assert again.iteration_s == found["iteration_s"]


def test_samples_alone_are_data_parallelism(capsys: pytest.CaptureFixture[str]) -> None:
    one = answer(capsys, *STEP, "--parallel", "dp=8")
    other = answer(capsys, *STEP, "--planner", "data_parallel")
    assert one["iteration_s"] == other["iteration_s"]


def test_zero_is_an_update(capsys: pytest.CaptureFixture[str]) -> None:
    one = answer(capsys, *STEP, "--parallel", "dp=4,tp=2", "--zero", "1")
    other = answer(capsys, *STEP, "--parallel", "dp=4,tp=2", "--update", "sharded")
    assert one["iteration_s"] == other["iteration_s"]
    split = [*STEP, "--parallel", "dp=4,tp=2", "--micro-batch", "1"]
    peaks = [answer(capsys, *split, "--zero", str(z))["peak_memory_bytes"] for z in range(4)]
    assert peaks == sorted(peaks, reverse=True)
    assert len(set(peaks)) == 4


def test_a_plan_by_axes_is_a_plan(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Written to a file it is simulated again, as anybody's."""
    path = str(tmp_path / "plan.json")
    axes = ["--parallel", "pp=2,tp=2"]
    plan = answer(capsys, "plan", "gpt2:seq=16", *ARRAY, *axes)
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    assert len(plan["pipeline"]["stages"]) == 2
    first = answer(capsys, *STEP, *axes)["iteration_s"]
    assert answer(capsys, *STEP, "--plan", path)["iteration_s"] == first
    said = mistake(capsys, *STEP, "--plan", path, "--micro-batch", "1")
    assert "micro-batch is a part of the plan already: leave it out" in said


def test_beside_other_planners(capsys: pytest.CaptureFixture[str]) -> None:
    both = ["--planners", "data_parallel,axes", "--parallel", "dp=2,tp=4"]
    rows = answer(capsys, "speedup", "--networks", "gpt2:seq=16", *ARRAY, *both)["rows"]
    assert [row["planner"] for row in rows] == ["data_parallel", "axes"]
    assert rows[0]["iteration_s"] != rows[1]["iteration_s"]
    assert answer(capsys, "compare", "gpt2:seq=16", *ARRAY, *both)["planners"]


def test_axes_are_varied(tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    vary = ["--vary", "parallel=dp=8,dp=4 tp=2,dp=2 tp=4"]
    step = ["--networks", "gpt2:seq=16", "--planners", "axes", *ARRAY]
    assert main(["sweep", *vary, *step, "--output", str(table), "--format", "json"]) == 0
    rows = [row for row in json.loads(table.read_text()) if row["planner"] == "axes"]
    assert [row["parallel"] for row in rows] == ["dp=8", "dp=4 tp=2", "dp=2 tp=4"]
    assert len({row["iteration_s"] for row in rows}) == 3


def test_degrees_of_parallelism_are_for_the_planner_that_reads_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The others would do the same in each case."""
    step = ("sweep", "--networks", "gpt2:layers=1:seq=16", *ARRAY)
    rows = answer(capsys, *step, "--vary", "parallel=dp=8,dp=4 tp=2")
    assert [row["planner"] for row in rows] == ["axes", "axes"]
    assert {row["planner"] for row in answer(capsys, *step, "--vary", "batch=32")} > {"accpar"}
    once = (one for one in ["batch=32,64"])  # what is varied is read once
    frame = accelarray.sweep(once, "lenet", "owt", "tpu-v3-8").to_frame()
    assert list(frame["batch"]) == [32, 64]
    named = answer(capsys, *step, "--vary", "parallel=dp=8", "--planners", "owt,axes")
    assert [row["planner"] for row in named] == ["owt", "axes"]


def test_some_planner_must_read_axes(capsys: pytest.CaptureFixture[str]) -> None:
    step = ["speedup", "--networks", "lenet", "--array", "tpu-v3-8", "--parallel", "tp=8"]
    said = mistake(capsys, *step, "--planners", "accpar")
    assert "parallel is for named axes: say --parallel, as --parallel dp=8,tp=2" in said
    with pytest.raises(UsageError, match="parallel is for named axes"):
        accelarray.simulate("lenet", "accpar", "tpu-v3-8", parallel="tp=8")


def test_options_of_stages_that_are_not_there_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    alone = answer(capsys, *STEP, "--parallel", "dp=8", "--schedule", "zero-bubble")
    said = "No effect, without stages or micro-batches: schedule zero-bubble."
    assert said in alone["warnings"]
    staged = answer(capsys, *STEP, "--parallel", "pp=2", "--schedule", "zero-bubble")
    assert said not in staged["warnings"]


def test_what_a_plan_has_decided_is_not_varied() -> None:
    plan = accelarray.plan("gpt2:seq=16", array="tpu-v3-8", parallel="pp=2", batch=32)
    with pytest.raises(UsageError, match="stages is a part of the plan already"):
        accelarray.sweep({"stages": [1, 2]}, "gpt2:seq=16", planners=[plan], array="tpu-v3-8")


def test_what_a_plan_does_not_hold_is_said(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Recomputing is of the step: a file of a plan with it has none."""
    step = ("gpt2:layers=1:seq=16", *ARRAY, "--parallel", "dp=8")
    said = "A plan does not hold --recompute full: say it again where the plan is simulated."
    made = answer(capsys, "plan", *step, "--recompute", "full")
    assert said in made["warnings"]
    assert said not in answer(capsys, "plan", *step)["warnings"]
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(made))
    alone = ("simulate", "gpt2:layers=1:seq=16", *ARRAY, "--plan", str(file))
    again = answer(capsys, *alone, "--recompute", "full")["iteration_s"]
    assert again == answer(capsys, "simulate", *step, "--recompute", "full")["iteration_s"]
    assert again > answer(capsys, *alone)["iteration_s"]


def test_what_a_plans_file_does_not_hold_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Buckets and the order of updates, too; what is usual is said by nobody."""
    file = tmp_path / "plan.json"
    step = ["plan", "gpt2:layers=1:seq=16", *ARRAY, "--parallel", "dp=8", "--output", str(file)]
    asked = ["--set", "bucket=1MB", "--set", "update_order=arrival", "--recompute", "full"]
    main([*step, *asked])
    said = "hold --recompute full, bucket=1e+06, update_order=arrival: say them again"
    assert said in capsys.readouterr().err
    main(step)
    assert "hold" not in capsys.readouterr().err


def test_an_execution_model_without_buckets_lacks_nothing() -> None:
    """Of an array whose software has some."""
    plan = accelarray.plan(
        "gpt2:layers=1:seq=16", array="h100-cluster", parallel="dp=32", batch=32, execution=DEPLOYED
    )
    assert plan.without() == []
