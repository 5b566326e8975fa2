"""What a micro-batch's gradients of weights move, and a host that waits for every kernel.

Bytes are counted by hand from the frameworks' sources (hardware/catalog, stacks' ``[sources]``).
"""

from __future__ import annotations

import pytest

from hardware import SpecError, load_array
from simulator.cost.roofline import Core, core_of, cost, costs, traffic
from simulator.cost.training_operators import operators
from tests.simulator.shapes import unsplit
from workloads import Builder

ROWS, INPUTS, OUTPUTS = 6, 32, 48
WEIGHTS = INPUTS * OUTPUTS


def core(*changes: str) -> Core:
    said = ["nodes=1", "optimizer=adam", *changes]
    ((device, _),) = load_array("a100-cluster", said).group.kinds
    return core_of(device)


NET = Builder("two", INPUTS, 1)
NET.fc("first", OUTPUTS)
NET.fc("second", OUTPUTS)
OF = operators(NET.build())
SHARD = unsplit(OF.graph[0], ROWS)
(GRADIENT,) = OF.nodes[0].gradient
MAPS = 2 * ROWS * (INPUTS + OUTPUTS)
"""Bytes of features and errors that the product reads."""


@pytest.mark.parametrize(
    ("stack", "format_", "product", "kernel"),
    [
        # BF16_Optimizer: clear 2; autograd adds 2 + 2 to 2; cast 2 to 4; add 4 + 4 to 4
        ("deepspeed-2022", "bf16", 2, 2 + 6 + 6 + 12),
        ("deepspeed-2022", "fp16", 2, 2 + 2 + 2),
        ("deepspeed-2022", "tf32", 4, 4 + 4 + 4),
        # main_grad.add_(grad): 4 + 2 to 4
        ("megatron-2021", "bf16", 2, 4 + 2 + 4),
        ("megatron-2021", "fp16", 2, 2 + 2 + 2),
        # the product reads main_grad and writes it
        ("megatron-lm-2025", "bf16", 4 + 4, 0),
        # gradients come and go
        ("torchtitan-2024", "bf16", 4, 0),
    ],
)
def test_bytes_of_a_gradient(stack: str, format_: str, product: int, kernel: int) -> None:
    of = core(f"stack={stack}", f"precision={format_}")
    maps = MAPS * (2 if format_ == "tf32" else 1)
    assert traffic(GRADIENT, SHARD, of) == maps + product * WEIGHTS
    first, *more = costs([GRADIENT], SHARD, of)
    assert first.bytes == maps + product * WEIGHTS
    assert [one.bytes for one in more] == ([kernel * WEIGHTS] if kernel else [])


@pytest.mark.parametrize(
    ("stack", "product", "kernel"),
    [
        ("megatron-lm-2025", 4 + 4, 0),  # reads main_grad and writes it, whichever use it is
        ("megatron-2021", 2, 4 + 2 + 4),
        ("torchtitan-2024", 4 + 4, 0),  # the use behind it has written what this one adds to
    ],
)
def test_a_weights_other_uses_have_it_once(stack: str, product: int, kernel: int) -> None:
    net = Builder("shared", INPUTS, 1)
    net.linear("one", INPUTS)
    net.linear("other", INPUTS, shared="one")
    of = operators(net.build())
    (gradient,), shard = of.nodes[0].gradient, unsplit(of.graph[0], ROWS)
    maps, weights = 2 * ROWS * 2 * INPUTS, INPUTS * INPUTS
    first, *more = costs([gradient], shard, core(f"stack={stack}", "precision=bf16"))
    assert first.bytes == maps + product * weights
    assert [one.bytes for one in more] == ([kernel * weights] if kernel else [])


def test_the_kernel_takes_its_bytes_over_memory() -> None:
    of = core("stack=deepspeed-2022", "precision=bf16", "devices.0.roofline.host=0 s")
    product, kernel = costs([GRADIENT], SHARD, of)
    assert product == cost(GRADIENT, SHARD, of)
    assert kernel.seconds == pytest.approx(26 * WEIGHTS / of.hbm_bytes_per_s + of.overhead_s)
    assert not kernel.flops
    assert kernel.phase is GRADIENT.phase


def test_only_weights_have_it() -> None:
    """Products forward and of errors add nothing up."""
    of = core("stack=deepspeed-2022", "precision=bf16")
    for phase in (OF.nodes[1].forward, OF.nodes[1].backward):
        assert not [
            one for one in costs(phase, unsplit(OF.graph[1], ROWS), of) if "added" in one.name
        ]


@pytest.mark.parametrize("key", ["gradient_kernel=6 B", "gradient_copy=true"])
def test_what_is_added_to_needs_a_buffer(key: str) -> None:
    with pytest.raises(SpecError, match="only with a buffer of gradients"):
        load_array("tpu-v3-8", [f"devices.0.arithmetic.{key}"])


def test_a_blocking_host_waits_for_every_kernel() -> None:
    """Its own time comes on top, however long the kernels take: 70 us of two products each."""
    usual = core("devices.0.roofline.host=0 s")
    waits = core("devices.0.roofline.host=70 us", "devices.0.roofline.blocking=true")
    several = [GRADIENT, GRADIENT]
    for rows in (ROWS, 1 << 24):
        shard = unsplit(OF.graph[0], rows)
        without, found = costs(several, shard, usual), costs(several, shard, waits)
        more = sum(one.seconds for one in found) - sum(one.seconds for one in without)
        assert more == pytest.approx(140e-6)
