"""Chips of one kind that differ: all wait for the slowest of them."""

from __future__ import annotations

import numpy as np
import pytest

from hardware import Roofline, load_array
from simulator.cost.roofline import core_of

VARIES = Roofline(0.5, 0.8, variation=0.02)


@pytest.mark.parametrize(
    ("chips", "within"), [(2, 0.04), (8, 0.02), (64, 0.02), (1024, 0.05), (16384, 0.08)]
)
def test_the_slowest_of_many_is_as_slow_as_drawn_ones(chips: int, within: float) -> None:
    """An oracle that knows no quantile: the mean of the largest of so many draws."""
    rng = np.random.default_rng(13)
    draws = rng.normal(1.0, 0.02, (4_000_000 // chips, chips)).max(axis=1)
    found = (VARIES.waiting(chips).slowest - draws.mean()) / 0.02
    assert abs(found) < within  # of a standard deviation


def test_one_chip_waits_for_nobody_and_nobody_for_alike_ones() -> None:
    assert VARIES.waiting(64).waiting(1).slowest == 1.0
    assert Roofline(0.5, 0.8).waiting(4096) == Roofline(0.5, 0.8)


def test_all_that_a_chip_does_takes_as_much_longer() -> None:
    """An array's chips of a kind count, on all boards of all nodes; attention's products too."""
    changes = "devices.0.roofline.variation=0.02", "precision=fp8", "stack=nemo-2024"
    ((device, boards),) = load_array("h100-cluster", ["nodes=16", *changes]).group.kinds
    ((alike, _),) = load_array(
        "h100-cluster", ["nodes=16", "devices.0.roofline.variation=0", *changes[1:]]
    ).group.kinds
    assert boards * device.chips == 128
    slowest = VARIES.waiting(128).slowest
    assert device.roofline.slowest == slowest > 1.05
    slow, fast = core_of(device), core_of(alike)
    for rate in (
        "flops_per_s",
        "hbm_bytes_per_s",
        "attention_flops_per_s",
        "computed_flops_per_s",
    ):
        assert getattr(fast, rate) / getattr(slow, rate) == pytest.approx(slowest, rel=1e-12)
    assert slow.overhead_s == fast.overhead_s


def test_chips_are_counted_not_boards() -> None:
    array = load_array("tpu-v3-pod", ["devices.0.roofline.variation=0.02"])
    ((device, boards),) = array.group.kinds
    assert device.chips == 4
    assert device.roofline.slowest == VARIES.waiting(4 * boards).slowest
