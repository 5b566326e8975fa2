"""``--precision``, ``--optimizer`` and ``--stack``: short for ``--set``, on any array."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import accelarray
from experiments.cli import main

STEP = ("gpt2:seq=128", "--planner", "data_parallel", "--array", "h100-cluster", "--batch", "64")


def simulated(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, Any]:
    assert main(["simulate", *STEP, *options, "--format", "json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    result: dict[str, Any] = json.loads(captured.out)
    return result


def test_options_are_short_for_settings(capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--precision", "fp8", "--optimizer", "adam", "--stack", "nemo-2024")
    short = simulated(capsys, *options)
    settings = [f"{o[2:]}={v}" for o, v in zip(options[::2], options[1::2], strict=True)]
    long = simulated(capsys, *(word for one in settings for word in ("--set", one)))
    assert short["iteration_s"] == long["iteration_s"]
    assert short["array"] == "h100-cluster, precision=fp8, optimizer=adam, stack=nemo-2024"
    assert short["iteration_s"] < simulated(capsys)["iteration_s"] * 1.2


def test_two_moments_are_more_bytes_than_one(capsys: pytest.CaptureFixture[str]) -> None:
    """Two passes, 2 x 4 + 3 x 4 + 2 x 4 m: 36 B a parameter of Adam, 28 of SGD, 20 without."""
    moved = {}
    for name in ("adam", "sgd", "adafactor"):
        phases = simulated(capsys, "--stack", "none", "--optimizer", name)["phases"]
        (moved[name],) = (p["bytes"] for p in phases if (p["phase"], p["kind"]) == UPDATE)
    assert moved["adam"] / moved["sgd"] == pytest.approx(36 / 28)
    assert moved["adafactor"] / moved["sgd"] == pytest.approx(20 / 28)


UPDATE = ("update", "memory")


@pytest.mark.parametrize(
    ("update", "words"),
    [
        ("replicated", "ZeRO 0"),
        ("sharded", "ZeRO 1"),
        ("weights", "ZeRO 3"),
        ("auto", "update auto"),
    ],
)
def test_headings_name_stages_of_zero(
    update: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulated(capsys, "--update", update)["execution"].endswith(f", {words}")


def test_a_stacks_bucket_and_overlap_are_usual(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    stack = tmp_path / "mine.toml"
    habits = 'bucket = "1 MB"\noverlap = "none"'
    stack.write_text(f'kind = "stack"\n[habits]\n{habits}\n', encoding="utf-8")
    own = "deployed, overlap none, bucket 1 MB, update order layers"
    assert simulated(capsys, "--stack", str(stack))["execution"] == own
    more = ("--stack", str(stack), "--overlap", "full", "--bucket", "25 MiB")
    asked = "deployed, bucket 26.2144 MB, update order layers"
    assert simulated(capsys, *more)["execution"] == asked
    later = (*more, "--update-order", "arrival")
    assert simulated(capsys, *later)["execution"] == asked.replace("layers", "arrival")
    result = accelarray.simulate(
        "lenet", "data_parallel", array="h100-cluster", batch=64, set={"stack": str(stack)}
    )
    assert "bucket 1 MB" in str(result)


def test_what_is_not_read_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    """The papers' model moves elements, which a precision sets, and has no optimizer."""
    args = ("simulate", "lenet", "--planner", "data_parallel", "--array", "accpar-mixed")
    assert main([*args, "--precision", "bf16", "--optimizer", "adam"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "does not read optimizer, which was changed; the deployed model does." in said


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--precision", "fp4"), "--precision fp4: h100-sxm has no fp4; it has bf16, fp16"),
        (("--precision", "half"), "--precision half: 'half': must be one of"),
        (("--optimizer", "lamb"), "--optimizer lamb: 'lamb': must be one of 'adam', 'sgd'"),
        (("--stack", "megatron"), "--stack megatron: unknown stack 'megatron'; did you mean"),
    ],
)
def test_mistakes_are_one_line(
    capsys: pytest.CaptureFixture[str], options: tuple[str, str], says: str
) -> None:
    assert main(["simulate", *STEP, *options]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1


def test_a_profiles_optimizer_is_no_specs(capsys: pytest.CaptureFixture[str]) -> None:
    args = ["plan", "--profile", "x.json", "--planner", "phaze", "--devices", "4"]
    args += ["--bandwidth", "1 GB/s", "--memory", "1 GB", "--micro-batches", "2"]
    assert main([*args, "--optimizer", "adafactor"]) == 2
    assert "--optimizer adafactor: Phaze's placement knows sgd and adam" in capsys.readouterr().err
    assert main([*args, "--precision", "bf16"]) == 2
    assert "has no meaning with --profile" in capsys.readouterr().err


def test_a_stacks_attention_is_that_of_networks_which_have_any(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def name(*options: str, network: str = STEP[0]) -> str:
        assert main(["simulate", network, *STEP[1:], *options, "--format", "json"]) == 0
        return str(json.loads(capsys.readouterr().out)["network"])

    assert name("--stack", "nemo-2024") == f"{STEP[0]}, attention fused"
    assert name("--stack", "megatron-2021") == f"{STEP[0]}, attention unfused"
    asked = name("--stack", "nemo-2024", "--attention", "unfused")
    assert asked == f"{STEP[0]}, attention unfused"
    assert name("--stack", "nemo-2024", network="lenet") == "lenet"
    assert name() == f"{STEP[0]}, attention fused"  # of the array's usual stack
    assert name("--stack", "none") == STEP[0]


def test_a_stack_of_habits_alone_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """And of a cluster's device no port, whose speed its tiers say."""
    stack = tmp_path / "hides.toml"
    stack.write_text('kind = "stack"\n[habits]\nhidden_tensor = 0.5\n', encoding="utf-8")
    args = ["simulate", "lenet", "--planner", "data_parallel", "--array", "dgx-h100"]
    assert main([*args, "--stack", str(stack)]) == 0
    assert "does not read" not in capsys.readouterr().out
    assert main([*args, "--set", "devices.0.network.bandwidth=1 Gbit/s"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "does not read devices.0.network.bandwidth, which was changed" in said


def test_what_a_grid_varies_and_no_run_reads_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["papers", "train", "lenet", "--array", "dgx-h100", "--workers", "8"]
    varied = "network.bandwidth=10 Gbit/s,100 Gbit/s"
    assert main([*words, "--iterations", "2", "--vary", varied]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "training does not read network.bandwidth, which was changed" in said
