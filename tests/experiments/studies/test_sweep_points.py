"""Each point of a sweep is the step that ``simulate`` runs with the same values."""

from typing import Any

import pytest

import accelarray
from experiments.cli import main

NETWORK = "gpt2:layers=2"


def single(array: str, **options: Any) -> float:
    step = accelarray.simulate(NETWORK, "data_parallel", array, batch=64, **options)
    return float(step.iteration_s)


def swept(vary: dict[str, list[str]], **options: Any) -> list[float]:
    table = accelarray.sweep(vary, NETWORK, "data_parallel", batch=64, jobs=1, **options)
    return [float(one) for one in table.to_frame()["iteration_s"]]


@pytest.mark.parametrize(
    "vary",
    [
        {"stack": ["megatron-2021", "deepspeed-2022", "megatron-2025"]},  # attention, kernels
        {"precision": ["bf16", "fp32"]},  # fused, and with products of its own
    ],
)
def test_of_what_an_arrays_software_decides(vary: dict[str, list[str]]) -> None:
    (key, values), small = *vary.items(), {"nodes": 1}
    options: dict[str, Any] = {"stack": "megatron-2021"} if key == "precision" else {}
    alone = [single("h100-cluster", set=small, **options, **{key: one}) for one in values]
    assert len(set(alone)) == len(alone)
    assert swept(vary, array="h100-cluster", set=small, **options) == alone


@pytest.mark.parametrize("options", [{}, {"zero": 1}, {"overlap": "none"}, {"precision": "fp8"}])
def test_of_arrays_beside_options(options: dict[str, Any]) -> None:
    arrays = ["h100-cluster", "h200-cluster"]
    alone = [single(array, **options) for array in arrays]
    assert swept({"array": arrays}, **options) == alone


def test_the_arrays_that_are_varied_train_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = "sweep --networks llama3-8b:layers=2 --planners data_parallel --batch 128 --jobs 1"
    assert main([*words.split(), "--vary", "array=h100-cluster,a100-cluster"]) == 0
    assert "llama3-8b:layers=2, attention fused" in capsys.readouterr().out


def test_a_networks_name_has_nothing_that_differs() -> None:
    vary = {"stack": ["megatron-2021", "megatron-2025"]}
    found = accelarray.sweep(vary, NETWORK, "data_parallel", "h100-cluster", 64, jobs=1)
    assert {*found.to_frame()["network"]} == {NETWORK}


@pytest.mark.parametrize("stack", ["megatron-2021", "megatron-2025"])
def test_of_training_runs(stack: str) -> None:
    run: dict[str, Any] = {"iterations": 3, "array": "h100-cluster", "set": {"nodes": 1}}
    (alone,) = accelarray.train(NETWORK, 8, stack=stack, **run).rows()
    vary = {"stack": ["megatron-2021", "megatron-2025"]}
    rows = {row["stack"]: row for row in accelarray.train(NETWORK, 8, vary=vary, **run).rows()}
    assert rows[stack]["time_s"] == alone["time_s"]


@pytest.mark.parametrize(
    ("key", "values", "fixed"),
    [
        ("execution", ["published", "deployed"], {"stages": 2, "micro_batches": 4}),
        ("execution", ["published", "deployed"], {"parallel": "dp=4,pp=2"}),
        ("execution", ["deployed"], {"mode": "inference"}),
        ("recompute", ["none", "full", "stages:all"], {"parallel": "dp=4,pp=2"}),
    ],
)
def test_of_values_beside_fixed_ones(key: str, values: list[str], fixed: dict[str, Any]) -> None:
    planner = None if "parallel" in fixed else "data_parallel"
    on: dict[str, Any] = {"array": "dgx-a100", "batch": 64, **fixed}
    network = "gpt2:layers=4:seq=64:tied=no"
    points = [{**on, key: one} for one in values]
    alone = [accelarray.simulate(network, planner, **point) for point in points]
    on |= {key: values[-1]} if key == "recompute" else {}  # which the varied one replaces
    found = accelarray.sweep({key: values}, network, planner or "axes", jobs=1, **on)
    rows = [float(one) for one in found.to_frame()["iteration_s"]]
    assert rows == [step.iteration_s for step in alone]


@pytest.mark.parametrize(
    "options",
    [{"schedule": "zero-bubble"}, {"cuts": "layer2.attention.qkv"}, {"recompute": "stages:1"}],
)
def test_data_parallelism_has_nothing_of_the_axes_stages(options: dict[str, Any]) -> None:
    on: dict[str, Any] = {"array": "dgx-a100", "batch": 64}
    plain = accelarray.simulate("gpt2:layers=4", "data_parallel", **on)
    both = accelarray.compare("gpt2:layers=4", "axes", parallel="dp=4,pp=2", **on, **options)
    (row,) = [row for row in both.rows() if row["planner"] == "axes"]
    staged = accelarray.simulate("gpt2:layers=4", parallel="dp=4,pp=2", **on, **options)
    assert row["speedup"] == pytest.approx(plain.iteration_s / staged.iteration_s)
