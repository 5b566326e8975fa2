"""``compare --trace``: a measured trace beside a simulated step."""

import json
from pathlib import Path
from typing import Any

import pytest

import accelarray
from experiments.cli import main
from experiments.output import NARROWEST, UsageError

WORDS = ["compare", "gpt2:layers=2:seq=128", "--array", "dgx-a100", "--batch", "16"]
STAGES = ["--parallel", "tp=2,pp=2,dp=2", "--micro-batch", "2"]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our own traces of a pipeline, in the place of measured ones."""
    folder = tmp_path_factory.mktemp("traces")
    step = accelarray.simulate(
        "gpt2:layers=2:seq=128", None, "dgx-a100", 16, parallel="tp=2,pp=2,dp=2", micro_batch=2
    )
    step.save(folder / "step.pt.trace.json")
    return folder


def changed(traces: Path, rank: int, factor: float, word: str) -> Path:
    """The trace of a rank, kernels with a word in their name longer, and all of them later."""
    data = json.loads((traces / f"step.{rank}.pt.trace.json").read_text())
    for event in data["traceEvents"]:
        if event.get("cat") in ("kernel", "user_annotation"):
            event["ts"] *= factor
            longer = word in event["name"] or event["cat"] == "user_annotation"
            event["dur"] *= factor if longer else 1
    path = traces / "changed.json"
    path.write_text(json.dumps(data))
    return path


def test_the_same_step_does_not_differ(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank, stage in ((1, 0), (6, 1)):
        path = traces / f"step.{rank}.pt.trace.json"
        assert main([*WORDS, *STAGES, "--trace", str(path)]) == 0
        shown = capsys.readouterr().out
        assert f"a mean device of stage {stage} (of 2)" in shown
        assert "No class differs by 0.1%." in shown
        table = [line for line in shown.splitlines() if line[:1] in "┏┃┡│└├"]
        assert max(map(len, table)) <= NARROWEST
        assert [line.split("│")[1].strip() for line in table if line.startswith("│")] == [
            *("products", "element-wise", "all-reduce", "send/recv"),
            *("exposed communication", "idle", "step"),
        ]


def test_what_takes_longer_is_named(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = ["--trace", str(changed(traces, 0, 3, "gemm")), "--format", "json"]
    assert main([*WORDS, *STAGES, *whole]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = {row["class"]: row for row in found["classes"]}
    products = rows["products"]
    assert products["trace_s"] == pytest.approx(3 * products["simulated_s"], rel=1e-3)
    assert rows["element-wise"]["difference_s"] == pytest.approx(0, abs=2e-7)
    assert {"products", "idle"} <= {*found["differs_most"]}
    ours, theirs = found["iteration_s"]
    assert (theirs, found["difference_s"]) == (pytest.approx(3 * ours), pytest.approx(2 * ours))
    assert found["trace"]["rank"] == 0
    assert found["trace"]["world_size"] == 8
    working = sum(rows[name]["trace_s"] for name in ("products", "element-wise"))
    parts = working + rows["exposed communication"]["trace_s"] + rows["idle"]["trace_s"]
    assert parts == pytest.approx(theirs, rel=1e-6)


def test_in_python_it_is_a_keyword_of_difference(traces: Path) -> None:
    step = accelarray.simulate(
        "gpt2:layers=2:seq=128", None, "dgx-a100", 16, parallel="dp=4,tp=2", set={"nodes": 1}
    )
    path = traces / "step.0.pt.trace.json"
    found = accelarray.difference(step, trace=path)
    rows = {row["class"]: row for row in found.rows()}
    assert rows["step"]["simulated_s"] == step.iteration_s
    assert rows["send/recv"]["simulated_s"] == 0 < rows["send/recv"]["trace_s"]
    assert list(found.to_frame()["class"]) == list(rows)
    data = json.loads(path.read_text())
    data["distributedInfo"]["world_size"] = 16
    (traces / "more.json").write_text(json.dumps(data))
    more = accelarray.difference(step, trace=traces / "more.json")
    assert "The trace is of 16 ranks, the step of 8 devices." in more.summary()
    difference: Any = accelarray.difference
    for options in ({}, {"second": step, "trace": path}):
        with pytest.raises(UsageError, match="one of the two"):
            difference(step, **options)
