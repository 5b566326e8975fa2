"""Dummies of gradients: counted here by hand, shape by shape, of networks split by axes."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from hardware import SpecError, load_array
from planners import Axes, Staging, Update, planned_by_axes
from simulator import DEPLOYED, simulate
from simulator.cost.dummies import kept, made
from simulator.cost.memory import MemoryUse, memory_use
from simulator.cost.operators import Operators
from simulator.cost.roofline import Core, core_of
from simulator.cost.training_operators import operators
from simulator.engine.operations import CLASSES
from tests.simulator.cost.test_transformer_blocks import PLAIN, shards
from workloads import Network, Transformer, transformer

H, FFN, KV, VOCAB, SEQ = 64, 96, 2 * 16, 50, 32
LLAMA = Transformer(
    "l", 3, H, 4, VOCAB, seq=SEQ, ffn=FFN, gated=True, kv_heads=2, norm="rms_norm",
    positions="rotary", biases=False, fused_qkv=False, tied=False,
)  # fmt: skip
BLOCK = (H + 2 * KV) * H + H * H + 2 * FFN * H + FFN * H
"""Elements of a block's matrices: query, key and value; output; gate and up; down."""


class Uses(NamedTuple):
    """What a core holds with dummies and without, and the same operators."""

    all: Operators
    plain: MemoryUse
    more: MemoryUse


def uses(network: Network, rows: int = 2) -> Uses:
    found = operators(network)
    own = shards(found, rows)
    return Uses(found, *(memory_use(found, own, core) for core in cores()))


def cores() -> tuple[Core, Core]:
    """PLAIN's with a buffer of gradients, and with dummies of 2 B beside it."""
    buffer = PLAIN.bytes._replace(buffer=4.0)
    return (
        replace(PLAIN, bytes=buffer),
        replace(PLAIN, bytes=buffer._replace(dummy=buffer.weight)),
    )


@pytest.mark.parametrize("layers", [1, 3])
def test_one_for_each_shape_however_many_blocks(layers: int) -> None:
    of = uses(transformer(replace(LLAMA, layers=layers)))
    assert of.more.held_bytes - of.plain.held_bytes == pytest.approx(2 * BLOCK)
    assert of.more.gradient_bytes - of.plain.gradient_bytes == pytest.approx(2 * BLOCK)
    assert of.more.weight_bytes == of.plain.weight_bytes


def test_weights_of_one_shape_share_theirs() -> None:
    """A feed-forward of three times the width has an up as large as query, key and value."""
    gpt = transformer(Transformer("g", 2, H, 4, VOCAB, seq=SEQ, ffn=3 * H))
    of = uses(gpt)
    qkv, output, up, down = 3 * H * H, H * H, 3 * H * H, 3 * H * H
    # query, key and value are one product of 192 x 64, and so is up: one dummy for both
    assert up == qkv
    assert of.more.held_bytes - of.plain.held_bytes == pytest.approx(2 * (qkv + output + down))


def test_a_head_and_an_embedding_have_one_made_each_time() -> None:
    of = uses(transformer(LLAMA))
    more = {
        name: (most - plain) / 2
        for name, most, plain in zip(
            of.more.operators, of.more.series, of.plain.series, strict=True
        )
    }
    for name, elements in more.items():
        expected = BLOCK + VOCAB * H * (name in ("head gradient", "embedding gradient"))
        assert elements == pytest.approx(expected), name


def test_a_tied_head_has_one_as_well() -> None:
    of = uses(transformer(replace(LLAMA, tied=True)))
    at = of.more.operators.index("head gradient")
    assert of.more.series[at] - of.plain.series[at] == pytest.approx(2 * (BLOCK + VOCAB * H))


def test_experts_share_one() -> None:
    """Of 8 experts of 48 features one's gate and up, and one's down."""
    moe = replace(LLAMA, experts=8, topk=2, moe_ffn=48)
    of = uses(transformer(moe))
    attention = (H + 2 * KV) * H + H * H
    expected = attention + 2 * 48 * H + 48 * H + 8 * H  # and the router
    assert of.more.held_bytes - of.plain.held_bytes == pytest.approx(2 * expected)


def test_no_dummies_without_a_buffer() -> None:
    with pytest.raises(SpecError, match=r"arithmetic\.dummy_gradients: only with a buffer"):
        load_array("tpu-v3-8", ["devices.0.arithmetic.dummy_gradients=true"])


@pytest.mark.parametrize(("axes", "parts"), [("dp=8", 1), ("tp=2,dp=4", 2), ("pp=2,tp=2,dp=2", 2)])
def test_a_step_holds_them_split_as_its_weights_are(axes: str, parts: int) -> None:
    buffer = "devices.0.arithmetic.gradient_buffer=true"
    plain, dummies = (
        _step(axes, [buffer, *changes])
        for changes in ([], ["devices.0.arithmetic.dummy_gradients=true"])
    )
    more = (dummies["gradients"] - plain["gradients"]) * parts / 2
    assert more == pytest.approx(BLOCK) or more == pytest.approx(BLOCK + VOCAB * H)  # at the head
    assert dummies["weights"] == plain["weights"]
    assert dummies["optimizer"] == pytest.approx(plain["optimizer"])


def test_gradients_kept_in_parts_have_none() -> None:
    """What is scattered as soon as it is there has no buffer that a kernel could add to."""
    buffer = "devices.0.arithmetic.gradient_buffer=true"
    plain, dummies = (
        _step("dp=8", [buffer, *changes], in_parts=True)
        for changes in ([], ["devices.0.arithmetic.dummy_gradients=true"])
    )
    assert dummies == plain


def test_inference_has_no_gradients_and_no_dummies() -> None:
    said = ["arithmetic.gradient_buffer=true", "arithmetic.dummy_gradients=true"]
    ((device, _),) = load_array("tpu-v3-8", [f"devices.0.{one}" for one in said]).group.kinds
    bytes_of = core_of(device).bytes, core_of(device, inference=True).bytes
    assert [(one.buffer, one.dummy) for one in bytes_of] == [(4, 2), (0, 0)]


def test_none_is_made_for_nodes_apart() -> None:
    found = operators(transformer(LLAMA))
    own, mine = shards(found, 2), list(found.schedule())
    names = {mine[i].name for i, _ in made(found, mine, own, frozenset({0}))}
    assert names == {"head gradient"}
    assert kept(found, own, frozenset(range(len(own)))) == 0


@pytest.mark.parametrize(
    ("stack", "has"), [("megatron-2025", True), ("megatron-lm-2025", True), ("nemo-2024", False)]
)
def test_transformer_engine_s_stacks_of_2025_have_them(stack: str, *, has: bool) -> None:
    array = load_array("h100-cluster", ["nodes=1", "precision=bf16", f"stack={stack}"])
    ((device, _),) = array.group.kinds
    assert device.arithmetic.dummy_gradients is has


def _step(axes: str, changes: list[str], *, in_parts: bool = False) -> dict[str, float]:
    array = load_array("tpu-v3-8", ["devices.0.roofline.tile=false", *changes])
    asked = Staging(micro_batch=1 if "pp" in axes else 0)
    network = transformer(replace(LLAMA, layers=4))
    plan = planned_by_axes(network, DEPLOYED.planned(array), 16, Axes.parse(axes), asked)
    if in_parts:
        plan = replace(plan, updates=(Update.WEIGHTS,) * len(plan.nodes))
    one = simulate(network, plan, array, DEPLOYED).memory[0]
    return dict(zip(CLASSES, one.by_class, strict=True))


@pytest.mark.parametrize(("precision", "each"), [("bf16", 4 + 2), ("fp16", 2)])
def test_deepspeed_keeps_bf16_gradients_twice(precision: str, each: int) -> None:
    """BF16_Optimizer: a flat fp32 buffer, and the gradients that backward wrote beside it."""
    asked = ["stack=deepspeed-2022", "optimizer=adam", f"precision={precision}"]
    ((device, _),) = load_array("a100-cluster", asked).group.kinds
    assert core_of(device).bytes.buffer == each
    assert core_of(device).bytes.gradient == (4 if precision == "bf16" else 2)


def test_a_copy_stands_beside_a_buffer() -> None:
    with pytest.raises(SpecError, match="gradient_buffer = true"):
        load_array("tpu-v3-8", ["devices.0.arithmetic.gradient_copy=true"])
