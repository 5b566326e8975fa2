"""A device with fewer cores: each of these does what it did before."""

from dataclasses import replace

import pytest

from hardware import Device, load_array
from simulator.cost.roofline import core_of


@pytest.fixture
def two_cores() -> Device:
    """A chip whose formats and functions have peaks of their own."""
    ((found, _),) = load_array("h100-cluster").group.kinds
    return replace(found, chips=4, cores_per_chip=2, chip_attention_flops_per_s=7e14)


def test_a_core_is_what_it_was_on_the_whole_chip(two_cores: Device) -> None:
    alone = two_cores.with_cores(1)
    assert (alone.cores, two_cores.cores) == (1, 8)
    assert core_of(alone) == core_of(two_cores)
    assert alone.hbm_capacity_bytes == two_cores.hbm_capacity_bytes / 2


def test_all_cores_of_a_chip_are_one_chip(two_cores: Device) -> None:
    assert two_cores.with_cores(2) == replace(two_cores, chips=1)


def test_all_that_cores_compute_is_twice_as_fast(two_cores: Device) -> None:
    core, faster = core_of(two_cores), core_of(two_cores.computing(2))
    rates = ("flops_per_s", "attention_flops_per_s", "vector_flops_per_s", "exponentials_per_s")
    for rate in rates:
        assert getattr(faster, rate) == 2 * getattr(core, rate) > 0
    assert faster.hbm_bytes_per_s == core.hbm_bytes_per_s
