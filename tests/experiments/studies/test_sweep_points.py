"""Each point of a sweep is the step that ``simulate`` runs with the same values."""

from dataclasses import replace
from typing import Any

import pytest

import accelarray
from experiments.api.inputs import run_by
from experiments.cli import main
from hardware import load_array
from simulator import DEPLOYED
from simulator.cost.training_operators import operators
from workloads import Transformer, load_network, transformer
from workloads.layer_types.other import (
    EAGER_LOSS,
    EXPERT_GLU,
    LOSS,
    LOSS_IN_KERNELS,
    MASKED_FILL,
)
from workloads.transforms import without_loss

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


def test_the_published_model_has_no_options_of_the_deployed_one() -> None:
    on: dict[str, Any] = {"networks": "lenet", "array": "tpu-v3-8", "batch": 64, "jobs": 1}
    for options in ({"bucket": "1 MB"}, {"execution": replace(DEPLOYED, mode="inference")}):
        table = accelarray.sweep(
            {"execution": ["published", "deployed"]}, planners="data_parallel", **on, **options
        ).to_frame()
        assert [text.partition(",")[0] for text in table["execution"]] == ["published", "deployed"]
        words = ["bucket" in text for text in table["execution"]]
        assert words == [False, "bucket" in options]
        inference = ["inference" in text for text in table["execution"]]
        assert inference == ["execution" in options] * 2


def test_what_all_stages_compute_again_the_baseline_does_too() -> None:
    found = accelarray.sweep(
        {"recompute": ["none", "stages:all", "full"]},
        "gpt2:layers=2:seq=64",
        "axes",
        "dgx-a100",
        64,
        parallel="dp=8",
        jobs=1,
    )
    assert [*found.to_frame()["speedup"]] == [1, 1, 1]


def test_runs_on_arrays_are_checked_on_these() -> None:
    vary = {"array": ["h100-cluster", "a100-cluster"]}
    found = accelarray.train(
        NETWORK, 8, vary=vary, overlap="none", iterations=2, set={"nodes": 1}
    ).rows()
    assert found[0]["time_s"] < found[1]["time_s"]


def test_a_network_keeps_its_sizes_whoever_asked_before() -> None:
    network, array = load_network(NETWORK), load_array("h100-cluster")
    assert run_by(array, replace(network, sizes=None)).sizes is None
    assert network.sizes is not None
    assert run_by(array, network).sizes == network.sizes


def test_stacks_without_a_compiler_run_every_network_so() -> None:
    """As its own kernels say, as transformed, or compiled where that is asked for."""
    array = load_array("dgx-h100", [], usual=True)
    assert array.stack is not None
    assert array.stack.element_kernels
    gpt = load_network("gpt2:layers=2")
    apart, plain = (load_network(f"gpt2:layers=2:compiled={word}") for word in ("no", "yes"))
    of_a_stack, compiled, own = (
        [layer.apart for layer in run_by(array, one, how).layers]
        for one, how in ((gpt, ()), (gpt, ["compiled"]), (plain, ()))
    )
    assert of_a_stack == [layer.apart for layer in run_by(array, apart).layers]
    assert compiled == own
    assert any(of_a_stack)
    assert not any(compiled)
    bert = load_network("bert-base:seq=64")
    kept = run_by(array, bert, ["eager"])
    assert kept.layers == run_by(None, bert, ["attention=fused", "eager"]).layers
    cnn = load_network("resnet18")
    assert run_by(array, cnn).layers == cnn.layers


def test_gated_experts_with_biases_have_their_kernels() -> None:
    array = load_array("dgx-h100", [], usual=True)
    sizes = Transformer(
        "moe", 2, 64, 4, 100, seq=32, experts=4, moe_ffn=64, gated=True, biases=True
    )
    asked, named = (
        run_by(array, transformer(replace(sizes, compiled=how))) for how in (None, False)
    )
    assert asked.layers == named.layers
    assert any(layer.operator == EXPERT_GLU for layer in asked.layers)


@pytest.mark.parametrize("form", ["fused", "unfused", "eager"])
@pytest.mark.parametrize("stack", ["none", "nemo-2024", "megatron-2021"])
def test_attention_that_a_network_names_is_what_it_gets(form: str, stack: str) -> None:
    array = load_array("dgx-h100", [f"stack={stack}"])
    named = run_by(array, load_network(f"gpt2:layers=2:seq=64:attention={form}"))
    asked = run_by(array, load_network("gpt2:layers=2:seq=64"), [f"attention={form}"])
    assert named.layers == asked.layers
    masks = [layer for layer in named.layers if layer.operator == MASKED_FILL]
    assert len(masks) == 2 * (form == "eager")


@pytest.mark.parametrize("stack", ["megatron-2025", "pytorch-2026"])
def test_eager_kernels_are_all_that_apart_has_and_more(stack: str) -> None:
    """Compiled, apart and eager: each has more kernels, and takes longer."""
    sizes = Transformer(
        "moe", 2, 1024, 16, 10_000, seq=1024, experts=4, moe_ffn=1024, gated=True, biases=True
    )
    array, times = load_array("dgx-h100", [f"stack={stack}", "nodes=1"]), list[float]()
    for how in ("compiled", "apart", "eager"):
        network = run_by(array, transformer(sizes), [how])
        kernels = {one.name for one in network.layers if one.operator == EXPERT_GLU}
        assert len(kernels) == (0 if how == "compiled" else 2)
        losses = {"compiled": [""], "apart": [LOSS, LOSS_IN_KERNELS], "eager": [EAGER_LOSS]}
        assert network.layers[-1].operator in losses[how]
        step = accelarray.simulate(transformer(sizes), "data_parallel", array, 512, transform=how)
        times.append(step.iteration_s)
    assert times == sorted(set(times))


@pytest.mark.parametrize("how", ["compiled", "apart", "eager"])
def test_inference_has_no_loss(how: str) -> None:
    """A softmax alone, whichever kernels a loss would have."""
    network = run_by(load_array("dgx-h100", [], usual=True), load_network("gpt2:layers=2"), [how])
    losses = {LOSS, LOSS_IN_KERNELS, EAGER_LOSS}
    assert bool(losses & {one.operator for one in network.layers}) == (how != "compiled")
    plain = without_loss(network)
    assert plain.layers[-1].kind == "softmax"
    assert operators(network, inference=True).nodes == operators(plain, inference=True).nodes
    assert operators(network).nodes[-1] != operators(plain).nodes[-1] or how == "compiled"
