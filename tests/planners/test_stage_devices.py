"""Stages on devices of their own: what is written is read, and like devices are plain axes."""

import warnings
from pathlib import Path
from typing import Any

import pytest

import accelarray
from planners import Axes, PlanError
from planners.axes.stage_devices import Replicas, on_devices, stage_devices, stage_layers

ARRAY = """
kind = "array"
execution = "deployed"
precision = "fp16"
optimizer = "adam"
[[devices]]
device = "v100-16"
count = 8
[[devices]]
device = "t4"
count = 4
[topology]
joins = "chips"
[[topology.levels]]
kind = "switch"
members = 4
bandwidth = "16 GB/s"
latency = "5 us"
[[topology.levels]]
kind = "switch"
bandwidth = "10 Gbit/s"
latency = "20 us"
"""


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    path = tmp_path / "mixed.toml"
    path.write_text(ARRAY)
    return str(path)


def step(array: str, **options: Any) -> accelarray.StepResult:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return accelarray.simulate(
            "gpt2:layers=6:seq=128", "axes", array, 24, micro_batch=1, **options
        )


def test_stages_are_read() -> None:
    assert stage_devices("v100:1x4; t4:2x2+v100:1x2") == (
        (Replicas("v100", 1, 4),),
        (Replicas("t4", 2, 2), Replicas("v100", 1, 2)),
    )
    assert stage_layers("7;7;6;10") == (7, 7, 6, 10)


@pytest.mark.parametrize("text", ["", "v100", "v100:0x1", "v100:1x0", "v100:1x1;", "v100:1x1+"])
def test_what_is_no_stage_is_refused(text: str) -> None:
    with pytest.raises(PlanError, match="stage-hw"):
        stage_devices(text)


def test_axes_that_say_otherwise_are_refused() -> None:
    with pytest.raises(PlanError, match="stage-hw says pp=2"):
        on_devices(Axes(tp=2), stage_devices("v100:1x4;t4:1x4"))


def test_like_stages_in_order_are_plain_axes(mixed: str) -> None:
    named = step(mixed, stage_hw="v100:1x4;v100:1x4;t4:1x4")
    assert named.iteration_s == step(mixed, parallel="pp=3,dp=4").iteration_s


def test_layers_are_counted_with_what_stands_beside_the_blocks(mixed: str) -> None:
    two = {"stage_hw": "v100:1x4;t4:1x4"}
    assert (
        step(mixed, **two, stage_layers="4;2").iteration_s
        == step(mixed, **two, stage_layers="5;3").iteration_s
        < step(mixed, **two, stage_layers="2;4").iteration_s  # T4 are slower
    )


@pytest.mark.parametrize("fault", ["v100:1x4;t4:1x8", "a100:1x4", "v100:1x4;v100:1x5"])
def test_devices_that_are_not_there_are_refused(mixed: str, fault: str) -> None:
    with pytest.raises(PlanError, match="stage-hw"):
        step(mixed, stage_hw=fault)


def test_unlike_replicas_take_the_slower_ones_time(mixed: str) -> None:
    """Of one stage with a replica of each kind, each has half of the micro-batches."""
    both = step(mixed, stage_hw="v100:1x1+t4:1x1").iteration_s
    alone = step(mixed, stage_hw="t4:1x2").iteration_s
    assert both >= 0.95 * alone


def test_a_plan_with_unlike_replicas_reads_back(mixed: str) -> None:
    made = step(mixed, stage_hw="v100:2x2;v100:1x1+t4:2x1").plan
    plan = made.plan if hasattr(made, "plan") else made
    assert accelarray.Plan.from_json(plan.to_json()) == plan
