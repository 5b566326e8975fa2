"""Kinds of device that others outdo in all that layouts take time for."""

from dataclasses import replace

import pytest

from hardware import Device, load_array
from hardware.device import ChipLinks, Roofline
from planners import TIME
from simulator import DEPLOYED
from simulator.planning.judge import Judge
from simulator.planning.outdone import outdoes
from simulator.planning.placed import Placing
from simulator.planning.placements import blank
from workloads import load_network, partition_graph

LENET = load_network("lenet")
V2, V3 = (device for device, _ in load_array("tpu-mixed").group.kinds)


def test_a_faster_kind_outdoes_a_slower_one() -> None:
    assert outdoes(V3, V2)
    assert not outdoes(V2, V3)
    assert not outdoes(V3, replace(V3, name="another"))  # neither, or both would go


@pytest.mark.parametrize(
    "other",
    [
        replace(V2, chip_peak_flops_per_s=2 * V3.chip_peak_flops_per_s),
        replace(V2, hbm_bytes_per_s=2 * V3.hbm_bytes_per_s),
        replace(V2, hbm_capacity_bytes=2 * V3.hbm_capacity_bytes),
        replace(V2, network_bytes_per_s=2 * V3.network_bytes_per_s),
        replace(V2, chip_vector_flops_per_s=1e9),
        replace(V2, links=ChipLinks(4, 1e15, 1.5e-6)),
        replace(V2, links=ChipLinks(4, 1e9, 0.0)),
        replace(V2, links=None),
        replace(V2, cores_per_chip=1),
        replace(V2, network_latency_s=1e-6),
        replace(V2, roofline=Roofline()),
    ],
)
def test_not_one_that_is_better_or_other_in_something(other: Device) -> None:
    """Of one with other latencies, cores or rules of its roofline nothing is known."""
    assert not outdoes(V3, other)


@pytest.mark.parametrize(("v3_boards", "left"), [(4, set()), (2, {32}), (1, {16, 32})])
def test_numbers_of_cores_of_the_slower_kind(v3_boards: int, left: set[int]) -> None:
    """32 cores of one kind and so many boards of the other: those of which it has no so many."""
    array = DEPLOYED.planned(
        load_array("tpu-mixed", ["devices.0.count=4", f"devices.1.count={v3_boards}"])
    )
    like = blank("lenet", [node.name for node in partition_graph(LENET)], 512, TIME)
    ranked = Placing(Judge(LENET, array, DEPLOYED), like)._ranked()
    assert {size for _, device, size in ranked if device.name == "tpu-v2"} == left
    assert {size for _, device, size in ranked if device.name == "tpu-v3"} == {
        1 << i for i in range((8 * v3_boards).bit_length())
    }
