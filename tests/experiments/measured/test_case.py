"""A row becomes an ordinary case: its network, machine, axes, format and stack."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.measured.case import case_of, chips_of, ready
from experiments.measured.machine import OF_FRAMEWORK, stack_of
from experiments.measured.rows import LeftOutError
from hardware import catalog_names
from tests.experiments.measured.some_rows import small
from workloads.layer_types.other import EAGER_LOSS, EXPERT_BIAS, EXPERT_GLU, LOSS_IN_KERNELS


def test_the_case_of_a_row() -> None:
    of = case_of(small(pp=2, tp=2, dp=2, vp=1, gbs=16, recompute="full"))
    case = of.case
    assert (case.planner, case.batch, case.array.group.size) == ("axes", 16, 8)
    staging = case.execution.staging
    assert staging is not None
    assert staging.parallel is not None
    axes = staging.parallel
    assert (axes.dp, axes.pp, axes.tp, axes.sp) == (2, 2, 2, True)
    assert (staging.micro_batch, case.execution.recompute) == (2, "full")
    head = 32000 * 1024
    block = 4 * 1024 * 1024 + 3 * 1024 * 4096
    assert case.network.weights == 4 * block + 2 * head  # untied
    assert case.array.stack is not None
    assert case.array.stack.name == "nemo-2024"
    kinds = ("ddp", "zero1", "zero2", "fsdp")
    updates = [case_of(small(dp_kind=kind)).case.execution.update for kind in kinds]
    assert updates == ["", "sharded", "gradients", "weights"]


def test_a_host_that_waited_for_each_kernel() -> None:
    """BigScience's logs were of runs with CUDA_LAUNCH_BLOCKING=1."""
    for overlap, blocking in (("none", False), ("none (CUDA_LAUNCH_BLOCKING=1)", True)):
        device, _ = case_of(small(overlap=overlap)).case.array.group.kinds[0]
        assert device.roofline.blocking is blocking


def test_what_frameworks_report_as_memory() -> None:
    """torchtitan and BigScience report what the allocator has reserved, others tensors."""
    assert case_of(small()).reserve_bytes == 0
    assert case_of(small(framework="torchtitan FSDP2")).reserve_bytes == 0.06 * 80 * 2**30
    deepspeed = case_of(small(framework="Megatron-DeepSpeed", hw="A100-80", year=2022))
    assert deepspeed.reserve_bytes == 0.16 * 80 * 2**30
    assert case_of(small(mem_kind="used")).reserve_bytes == 5e9
    assert case_of(small(mem_kind="reserved")).reserve_bytes == 0.06 * 80 * 2**30
    assert case_of(small(framework="torchtitan FSDP2", mem_kind="allocated")).reserve_bytes == 0


def test_models_that_differ_from_gpt_3() -> None:
    """OPT has ReLU, and neither it nor GPT-Neo has dropout within attention."""
    for model, activation, dropouts in (
        ("gpt-1B", "gelu", 3),
        ("GPT-Neo-2.7B", "gelu", 2),
        ("OPT-350M", "relu", 2),
    ):
        layers = case_of(
            small(model=model, arch="gpt", layers=1, gated=0, attn="unfused")
        ).case.network.layers
        assert any(layer.name == f"layer0.{activation}" for layer in layers)
        assert (
            sum(layer.operator == "dropout" and "layer0" in layer.name for layer in layers)
            == dropouts
        )


def test_nemotron_has_what_gpt_has_not() -> None:
    """Of two models with the same sizes one has dropout, biases and positions, one its own head."""
    gpt, nemotron = (
        case_of(small(model=model, arch="gpt", gated=0)).case.network
        for model in ("gpt3-175B", "nemotron4-15b")
    )
    assert not any(layer.operator == "dropout" for layer in nemotron.layers)
    assert any(layer.name == "layer0.squared_relu" for layer in nemotron.layers)
    hidden, ffn, vocab, seq, layers = 1024, 4096, 32000, 512, 4
    biases = layers * (3 * hidden + hidden + ffn + hidden) + (2 * layers + 1) * hidden
    assert nemotron.parameters - gpt.parameters == vocab * hidden - seq * hidden - biases


def test_nemotron_of_llamas_kind_is_a_llama() -> None:
    layers = case_of(small(model="nemotron-nano", arch="llama", gated=1)).case.network.layers
    assert any(layer.name == "layer0.silu" for layer in layers)


@pytest.mark.parametrize(
    ("framework", "arch", "many"),
    [
        ("NeMo 24.05 + TE", "gpt", True),
        ("NeMo Megatron 23.08", "gpt", True),
        ("NeMo 22.09", "gpt", True),
        ("NeMo 24.12", "gpt", False),
        ("NeMo 24.04 MLPerf", "gpt", False),
        ("NeMo 24.05 + TE", "llama", False),
        ("NeMo/Megatron (dgxc v25.02)", "gpt", False),
    ],
)
def test_launchers_loss_is_fused_for_llama_alone(framework: str, arch: str, many: bool) -> None:
    network = case_of(small(framework=framework, arch=arch, gated=0)).case.network
    assert (network.layers[-1].operator == LOSS_IN_KERNELS) == many


@pytest.mark.parametrize(
    ("framework", "alone"), [("torchtitan FSDP2 eager", True), ("torchtitan FSDP2 +compile", False)]
)
def test_torchtitan_without_its_compiler_runs_eager_kernels(framework: str, alone: bool) -> None:
    network = case_of(small(framework=framework)).case.network
    assert any(layer.apart for layer in network.layers) == alone


@pytest.mark.parametrize(("year", "compiled"), [(2024, False), (2025, True)])
def test_torchtitan_compiles_its_loss_since_2025(year: int, compiled: bool) -> None:
    network = case_of(small(framework="torchtitan FSDP2 +compile", year=year)).case.network
    assert (network.layers[-1].operator != EAGER_LOSS) == compiled


def test_formats_take_their_peaks() -> None:
    def peak(precision: str) -> float:
        return case_of(small(precision=precision)).case.array.group.kinds[0][0].peak_flops_per_s

    assert peak("fp8") == pytest.approx(2 * peak("bf16"), rel=1e-3)


def test_gpt_has_what_llama_has_not() -> None:
    gpt, llama = (case_of(small(arch=arch, gated=0)).case.network for arch in ("gpt", "llama"))
    assert gpt.parameters < llama.parameters  # its head is the embedding
    assert gpt.parameters - gpt.weights > llama.parameters - llama.weights  # biases, positions


@pytest.mark.parametrize("missing", ["layers", "hidden", "heads", "vocab", "seq", "ffn"])
def test_a_size_that_is_missing_leaves_the_row_out(missing: str) -> None:
    with pytest.raises(LeftOutError, match=missing):
        case_of(small(**{missing: ""}))


def test_other_kinds_and_shapes_are_left_out() -> None:
    with pytest.raises(LeftOutError, match="experts is not stated"):
        case_of(small(arch="moe"))
    with pytest.raises(LeftOutError, match="layer_ms"):
        case_of(small(kind="layer_ms"))
    assert "heads" in str(ready(small(heads=7, kv_heads="")))


def test_stacks_by_framework() -> None:
    assert {stack for _, stack in OF_FRAMEWORK} <= set(catalog_names("stack"))
    assert stack_of(small(framework="Megatron-LM", year=2022)) == ("megatron-2021", ())
    assert stack_of(small(framework="Megatron-LM", year=2024)) == ("megatron-lm-2025", ())
    assert stack_of(small(framework="Megatron-LM 0.14+ TE2.11")) == ("megatron-lm-2025", ())
    assert stack_of(small(framework="Whatever"))[1] == ("stack megatron-2025",)
    for source, framework in (("MLPerf Dell", "NeMo"), ("x", "NeMo 24.04 MLPerf")):
        assert stack_of(small(source=source, framework=framework)) == ("nemo-mlperf", ())
    assert stack_of(small(framework="NeMo")) == ("nemo-2024", ())
    for release in ("NeMo 24.05 + TE", "NeMo Megatron 23.08", "NeMo 24.03", "NeMo 22.11"):
        assert stack_of(small(framework=release)) == ("nemo-2024-flash", ())
    for release in ("NeMo 24.07 + TE", "NeMo 24.12", "NeMo/Megatron (dgxc v25.02)"):
        assert stack_of(small(framework=release)) == ("nemo-2024", ())


@pytest.mark.parametrize(
    ("hw", "framework", "model", "said", "stack"),
    [
        ("GB200", "26.06 + TE", "qwen3-235b-a22b", {}, "megatron-2026"),
        ("GB300", "26.08 + TE", "gpt-oss-120b", {}, "megatron-2026"),
        ("GB300", "26.04 + TE", "gpt-oss-120b", {}, "megatron-2025"),
        ("GB300", "26.08 + TE", "gpt-oss-120b", {"precision": "bf16"}, "megatron-2025"),
        ("B300", "26.06.01 + TE", "qwen3-30b-a3b", {}, "megatron-2026"),
        ("B300", "26.06 + TE", "qwen3-235b-a22b", {}, "megatron-2025"),
        ("B300", "26.06 + TE", "gpt-oss-120b", {}, "megatron-2025"),
        ("GB300", "26.04 + TE", "qwen3-235b-a22b", {}, "megatron-2025-hybridep"),
        ("H100", "25.11 + TE", "qwen3-235b-a22b", {"tp": 2}, "megatron-2025-overlap"),
        ("B200", "26.04 + TE", "deepseek-v3", {"ep": 8}, "megatron-2025-hybridep"),
        ("B200", "26.04 + TE", "deepseek-v3", {"ep": 32}, "megatron-2025-deepep"),
        ("GB300", "26.08 + TE", "llama3-8b", {"experts": ""}, "megatron-2025"),
    ],
)
def test_stacks_of_experts_by_recipe(
    hw: str, framework: str, model: str, said: dict[str, object], stack: str
) -> None:
    changes = {"tp": 1, "precision": "fp8", "experts": 8} | said
    row = small(hw=hw, framework=f"Megatron-Bridge {framework}", model=model, **changes)
    assert stack_of(row) == (stack, ())
    assert stack in catalog_names("stack")


def test_experts_of_gpt_oss_have_biases_and_kernels_of_their_own() -> None:
    """Of the fused stack only what adds the biases of the second product."""
    sizes = {"model": "gpt-oss-120b", "experts": 8, "topk": 2, "precision": "fp8", "tp": 1, "dp": 8}
    found = [
        {
            layer.operator
            for layer in case_of(
                small(framework=f"Megatron-Bridge {release}", hw="GB200", **sizes)
            ).case.network.layers
        }
        & {EXPERT_GLU, EXPERT_BIAS}
        for release in ("26.04", "26.06")
    ]
    assert found == [{EXPERT_GLU, EXPERT_BIAS}, {EXPERT_BIAS}]
    other = case_of(small(framework="Megatron-Bridge 26.04", **sizes | {"model": "qwen3"}))
    assert not {EXPERT_GLU, EXPERT_BIAS} & {one.operator for one in other.case.network.layers}


@pytest.mark.parametrize(("format_", "masks"), [("fp32", 4), ("fp16", 0)])
def test_unfused_attention_of_wide_numbers_masks_by_itself(format_: str, masks: int) -> None:
    row = small(framework="Megatron-LM", year=2021, hw="V100-32", precision=format_, attn="unfused")
    layers = case_of(row).case.network.layers
    assert sum(layer.operator == "masked_fill" for layer in layers) == masks


@pytest.mark.parametrize(
    ("framework", "precision", "said"),
    [
        ("NeMo 24.07 + TE", "bf16", "fused attention"),
        ("Megatron-LM 0.14+", "bf16", "fused attention"),
        ("Megatron-DeepSpeed", "bf16", "unfused attention"),
        ("Megatron-DeepSpeed", "tf32", "unfused attention"),
    ],
)
def test_attention_that_a_row_does_not_say_is_that_of_its_framework(
    framework: str, precision: str, said: str
) -> None:
    row = {"framework": framework, "precision": precision, "arch": "gpt", "gated": 0}
    of, stated = case_of(small(**row, attn="")), "flash" if said[0] == "f" else "unfused"
    assert said in of.split.assumed
    assert of.case.network == case_of(small(**row, attn=stated)).case.network


MIXED = """
kind = "array"
execution = "deployed"
{precision}
[[devices]]
device = "rtx-3090"
count = 2
[[devices]]
device = "titan-rtx"
count = 2
[topology]
joins = "chips"
[[topology.levels]]
kind = "switch"
"""


@pytest.mark.parametrize(
    ("spec", "said", "peaks", "assumed"),
    [
        ("", "tf32", (35.6, 16.3), "fp32 on chips without tf32"),
        ("", "fp32", (35.6, 16.3), ""),
        ("", "", (71, 130), "fp16"),
        ('precision = "fp32"', "", (35.6, 16.3), "fp32"),
    ],
)
def test_numbers_of_a_row_on_unlike_chips(
    spec: str, said: str, peaks: tuple[float, ...], assumed: str, tmp_path: Path
) -> None:
    """One Turing and one Ampere card: only Ampere has TF32 and bf16."""
    file = tmp_path / "mixed.toml"
    file.write_text(MIXED.format(precision=spec))
    stages = {"stage_hw": "rtx-3090:1x2;titan-rtx:1x2", "gpus": 4, "gbs": 8}
    of = case_of(small(hw="", array=str(file), precision=said, **stages))
    found = [device.chip_peak_flops_per_s / 1e12 for device, _ in of.case.array.group.kinds]
    assert found == pytest.approx(peaks)
    assert not assumed or assumed in of.split.assumed


@pytest.mark.parametrize(("framework", "products"), [("NeMo 24.05 + TE", 1), ("torchtitan", 3)])
def test_megatron_has_one_product_for_queries_keys_and_values(
    framework: str, products: int
) -> None:
    layers = case_of(small(framework=framework)).case.network.layers
    into = [one for one in layers if one.inputs == ("layer1.norm1",) and one.weighted]
    assert len(into) == products, [one.name for one in layers][:12]


@pytest.mark.parametrize(
    ("hw", "array", "chips"),
    [
        ("H100", "", "H100"),
        ("", "dgx-a100", "A100-80"),  # as rows call it that say no array
        ("", "mixed-a100-h100", "A100-80+H100"),
        ("", "no-such-array", ""),
    ],
)
def test_chips_of_a_row_are_those_of_its_array(hw: str, array: str, chips: str) -> None:
    """Statistics by chip, and constants of a chip, have both together."""
    assert chips_of(small(hw=hw, array=array)) == chips
