"""Unfused attention whose rows are no multiple of 16 B computes without matrix units."""

from __future__ import annotations

import pytest

from hardware import SpecError, load_array
from simulator.cost.operators import Operators
from simulator.cost.roofline import Core, core_of, costs
from simulator.cost.training_operators import operators
from tests.simulator.shapes import unsplit
from workloads import Transformer, transformer

FP32, BF16 = 19.5e12, 312e12
"""Peaks of A100 (NVIDIA's data sheet)."""


def core(*changes: str) -> Core:
    said = [f"devices.0.{change}" for change in changes]
    ((device, _),) = load_array("a100-cluster", ["nodes=1", "precision=bf16", *said]).group.kinds
    return core_of(device)


def gpt(features: int, seq: int = 64, *, fused: bool = False) -> Operators:
    attention = "fused" if fused else "unfused"
    sizes = Transformer("g", 1, 4 * features, 4, 96, seq=seq, ffn=512, attention=attention)
    return operators(transformer(sizes))


def seconds(of: Operators, core: Core) -> dict[str, float]:
    """What computing alone takes of each product."""
    return {
        one.name: one.compute_s
        for v, node in enumerate(of.nodes)
        for phase in (node.forward, node.backward, node.gradient)
        for one in costs(phase, unsplit(of.graph[v], 2), core)
        if one.flops
    }


ALIGNED = core("roofline.align=16 B")


@pytest.mark.parametrize(("features", "seq"), [(54, 64), (60, 64), (56, 61), (7, 7)])
def test_what_is_not_aligned_has_the_peak_of_fp32(features: int, seq: int) -> None:
    of = gpt(features, seq)
    plain, found = seconds(of, core()), seconds(of, ALIGNED)
    for name, compute_s in found.items():
        heads = name.startswith(("layer0.attention.scores", "layer0.attention.context"))
        expected = plain[name] * (BF16 / FP32 if heads else 1.0)
        assert compute_s == pytest.approx(expected), name
    assert sum("scores" in name or "context" in name for name in found) == 6


@pytest.mark.parametrize(("features", "seq"), [(56, 64), (64, 128)])
def test_what_is_aligned_is_as_it_was(features: int, seq: int) -> None:
    assert seconds(gpt(features, seq), ALIGNED) == seconds(gpt(features, seq), core())


def test_fused_attention_pads_in_registers() -> None:
    assert seconds(gpt(54, fused=True), ALIGNED) == seconds(gpt(54, fused=True), core())


def test_in_float32_four_numbers_are_16_bytes() -> None:
    ((device, _),) = load_array(
        "a100-cluster", ["nodes=1", "precision=fp32", "devices.0.roofline.align=16 B"]
    ).group.kinds
    assert core_of(device).align == 4


def test_the_peak_of_fp32_must_be_known() -> None:
    with pytest.raises(
        SpecError, match=r"roofline\.align: .* at the peak of fp32, which is not giv"
    ):
        load_array("tpu-v3-8", ["devices.0.roofline.align=16 B"])


@pytest.mark.parametrize("stack", ["megatron-2021", "deepspeed-2022"])
def test_stacks_of_cuda_11_say_so(stack: str) -> None:
    ((device, _),) = load_array("a100-cluster", ["precision=fp16", f"stack={stack}"]).group.kinds
    assert device.roofline.align_bytes == 16
    assert device.chip_vector_flops_per_s == FP32
