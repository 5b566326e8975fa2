"""Number formats on the command line: a wider element is felt everywhere, and explained."""

import json
from typing import Any

import pytest

from experiments.cli import main

STEP = (
    "resnet50",
    "--array",
    "tpu-v3-8",
    "--batch",
    "256",
    "--execution",
    "deployed",
    "--bucket",
    "0",
)


def run(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    assert main([*args, "--format", "json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    result: dict[str, Any] = json.loads(captured.out)
    return result


def simulated(capsys: pytest.CaptureFixture[str], planner: str, *changes: str) -> dict[str, Any]:
    options = [word for change in changes for word in ("--set", f"devices.0.{change}")]
    return run(capsys, "simulate", *STEP, "--planner", planner, *options)


def phase(result: dict[str, Any], name: str, kind: str) -> float:
    (row,) = (r for r in result["phases"] if (r["phase"], r["kind"]) == (name, kind))
    found: float = row["bytes"]
    return found


def test_elements_of_2_4_and_8_bytes(capsys: pytest.CaptureFixture[str]) -> None:
    """HBM traffic, memory, exchanges and time of one step under OWT grow with the element."""
    two, four, eight = (simulated(capsys, "owt", f'arithmetic.element="{n} B"') for n in (2, 4, 8))
    for name, kind in (
        ("forward", "memory"),
        ("forward", "partial sums"),
        ("forward", "boundary"),
        ("backward", "memory"),
        ("backward", "boundary"),
    ):
        narrow = phase(two, name, kind)
        assert [phase(four, name, kind), phase(eight, name, kind)] == pytest.approx(
            [2 * narrow, 4 * narrow]
        ), (name, kind)
    # gradients and the optimizer are float32 until the element is wider
    for kind in ("partial sums", "memory"):
        name = "gradient" if kind == "partial sums" else "update"
        assert phase(four, name, kind) == phase(two, name, kind)
        assert phase(eight, name, kind) == pytest.approx(2 * phase(two, name, kind))
    peaks = [result["memory"][0]["peak_bytes"] for result in (two, four, eight)]
    assert peaks[2] == 2 * peaks[1] > 3 * peaks[0]
    times = [result["iteration_s"] for result in (two, four, eight)]
    assert times[0] < 0.6 * times[1] < 0.36 * times[2]
    assert times[0] == pytest.approx(0.040568476, abs=1e-9)  # what it was when 2 B was all there is


def test_gradients_on_the_wire_follow_their_own_key(capsys: pytest.CaptureFixture[str]) -> None:
    plain = simulated(capsys, "data_parallel")
    half = simulated(capsys, "data_parallel", 'arithmetic.gradients="2 B"')
    summed, halved = (phase(result, "gradient", "partial sums") for result in (plain, half))
    assert halved == pytest.approx(summed / 2)
    assert phase(half, "forward", "memory") == phase(plain, "forward", "memory")
    assert half["iteration_s"] < plain["iteration_s"]


def test_explain_has_no_false_reason(capsys: pytest.CaptureFixture[str]) -> None:
    """Four bytes where a step is bound by HBM: it takes 1.8 times as long, and says no why not."""
    change = ("--set", 'devices.0.arithmetic.element="4 B"')
    result = run(capsys, "explain", *STEP, "--planner", "data_parallel", *change)
    (setting,) = result["set"]
    assert setting["reason"] is None
    assert result["iteration_s"] > 1.7 * setting["unchanged_s"]


def test_explain_counts_the_overhead_of_every_step_in_time(
    capsys: pytest.CaptureFixture[str],
) -> None:
    args = ("gnmt", "--planner", "data_parallel", "--array", "tpu-v3-8", "--batch", "64")
    result = run(capsys, "explain", *args, "--execution", "deployed", "--bucket", "0")
    overhead = sum(s["bounds_ps"].get("overhead", 0) for s in result["critical_path"]["segments"])
    assert overhead / 1e12 == pytest.approx(0.00172)


def test_what_is_wrong_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    for change, words in (
        ("arithmetic.compute=fp8", "devices.0.arithmetic.compute: 'fp8': chip.peak_by_format has"),
        ("arithmetic.master=1 B", "devices.0.arithmetic.master: 1 B: the optimizer's copy is no"),
    ):
        assert main(["simulate", *STEP, "--planner", "owt", "--set", f"devices.0.{change}"]) == 2
        captured = capsys.readouterr()
        assert words in captured.err
        assert "Traceback" not in captured.err
