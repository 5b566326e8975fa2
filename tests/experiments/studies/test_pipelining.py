"""What results say of a pipeline: what no schedule undercuts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from experiments.cli import main

STEP = (
    *("simulate", "alexnet", "--planner", "data_parallel", "--array", "tpu-v3-8"),
    *("--batch", "512", "--stages", "2"),
)


def asked(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert main([*STEP, *args, "--format", "json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def said(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main([*STEP, *args]) == 0
    return capsys.readouterr().out


def test_unfolded_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    folded = asked(capsys, "--micro-batches", "64")
    whole = asked(capsys, "--micro-batches", "64", "--unfolded")
    assert folded["pipeline"]["turns"] == whole["pipeline"]["turns"] == 64
    assert folded["iteration_s"] == whole["iteration_s"]
    assert folded["operations"] == whole["operations"]
    assert folded["pipeline"]["stages"] == whole["pipeline"]["stages"]


def test_a_pipeline_has_a_lower_bound(capsys: pytest.CaptureFixture[str]) -> None:
    """The same for schedules of the same stages, and below each of their steps."""
    found = [
        asked(capsys, "--micro-batches", "16", "--schedule", schedule)
        for schedule in ("gpipe", "1f1b", "zero-bubble")
    ]
    assert len({round(one["lower_bound_s"], 11) for one in found}) == 1
    assert all(one["step_gap"] >= 0 for one in found)
    assert "any schedule of these stages" in found[0]["lower_bound_covers"]
    assert "lower bound" in said(capsys, "--micro-batches", "16")


def test_each_kind_of_a_stage_has_its_row(capsys: pytest.CaptureFixture[str]) -> None:
    """Replicas on A100 work all the time, those on H100 wait for them."""
    asked = (
        *("simulate", "gpt3-1.3b:layers=4", "--array", "mixed-a100-h100", "--micro-batch", "1"),
        *("--set", "devices.0.count=8", "--set", "devices.1.count=8", "--batch", "24"),
        *("--planner", "axes", "--stage-hw", "a100-80:4x2@1+h100-sxm:4x2@2"),
    )
    assert main(asked) == 0
    table = capsys.readouterr().out.partition("bubble")[2]
    rows = [
        [cell.strip() for cell in line.split("│")] for line in table.splitlines() if " x " in line
    ]
    assert [row[3:5] for row in rows] == [["a100-80", "2 x 4"], ["h100-sxm", "2 x 4"]]
    assert len({row[5] for row in rows}) == 2


@pytest.mark.parametrize(
    ("more", "told", "way"),
    [
        ((), False, "rendezvous"),
        (("--schedule", "gpipe"), True, "waited for"),
        (("--schedule", "gpipe", "--set", "overlap=full"), False, "beside"),
        (("--set", "stack=nemo-2024"), False, "waited for"),
    ],
)
def test_stages_that_do_not_send_as_their_stack_say_so(
    more: tuple[str, ...], told: bool, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    step = ("gpt2:layers=4", "--array", "v100-cluster", "--set", "nodes=1")
    stages = ("--precision", "fp16", "--parallel", "pp=4,dp=2", "--batch", "16")
    every = (*step, "--set", "stack=deepspeed-2022", *stages, *more)
    assert main(["simulate", *every]) == 0
    assert ("to send and receive in turn" in capsys.readouterr().out) == told
    assert main(["explain", *every, "--format", "json"]) == 0
    pipeline = json.loads(capsys.readouterr().out)["pipeline"]
    assert any("to send and receive in turn" in note for note in pipeline["notes"]) == told
    assert pipeline["sends"] == [way]


@pytest.mark.parametrize("more", [["--batches", "3"], ["--schedule", "pipedream"]])
def test_a_step_in_one_stage_knows_no_batches(
    capsys: pytest.CaptureFixture[str], more: list[str]
) -> None:
    """On units, whose updates run beside other work, a run of several batches took longer."""
    times = []
    for args in ([], more):
        args = ["--array", "wham-1", "--planner", "data_parallel", "--batch", "8", *args]
        assert main(["simulate", "resnet18", *args, "--format", "json"]) == 0
        times.append(json.loads(capsys.readouterr().out)["iteration_s"])
    assert times[0] == times[1]
