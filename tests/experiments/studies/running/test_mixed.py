"""Arrays of unlike devices."""

from dataclasses import replace

import pytest

from experiments.studies.case import Case, plan_of, step_of
from experiments.studies.running.outputs import fastest_alone, is_uneven, slow_share
from hardware import Array, Device, Group, load_array
from workloads import load_network

MIXED = load_array("accpar-mixed")
ALEXNET = load_network("alexnet")


def of_kinds(*kinds: tuple[Device, int]) -> Array:
    return Array("made", "", Group(kinds))


def test_the_fastest_alone_has_the_peak_not_the_place() -> None:
    slow, fast = MIXED.group.kinds
    assert slow[0].peak_flops_per_s < fast[0].peak_flops_per_s
    for kinds in ((slow, fast), (fast, slow)):
        alone = fastest_alone(of_kinds(*kinds))
        assert alone.group.kinds == (fast,)
        assert alone.name == f"made, {fast[0].name} alone"
    assert fastest_alone(fastest_alone(MIXED)).group == fastest_alone(MIXED).group


def test_of_equal_peaks_the_faster_link_counts() -> None:
    (device, _), *_ = MIXED.group.kinds
    better = replace(device, network_bytes_per_s=2 * device.network_bytes_per_s)
    assert fastest_alone(of_kinds((device, 4), (better, 4))).group.kinds == ((better, 4),)
    array = of_kinds((better, 4), (device, 4))
    timeline = step_of(Case(ALEXNET, "data_parallel", array, 64))[1]
    assert slow_share(timeline, array) == pytest.approx(0.5)


def test_a_shape_does_not_outlive_its_devices() -> None:
    array = load_array("tpu-mixed")
    shaped = replace(array, topology=replace(array.topology, shape=(16, 16)))
    assert fastest_alone(shaped).topology.shape == ()
    assert fastest_alone(shaped).topology.kind == array.topology.kind


@pytest.mark.parametrize(
    ("planner", "uneven"),
    [("data_parallel", False), ("owt", False), ("hypar", False), ("accpar", True)],
)
def test_which_plans_are_uneven(planner: str, uneven: bool) -> None:
    assert is_uneven(plan_of(Case(ALEXNET, planner, MIXED, 512)), MIXED) is uneven


def test_shares_that_follow_the_number_of_devices_are_even() -> None:
    """One slow board beside three fast ones: halves of two, then a quarter each."""
    (slow, _), (fast, _) = MIXED.group.kinds
    array = of_kinds((slow, 1), (fast, 3))
    even = plan_of(Case(ALEXNET, "data_parallel", array, 64))
    assert even.root is not None
    assert not is_uneven(even, array)
    first, *others = even.root.partitions
    moved = replace(even.root, partitions=(replace(first, share=0.1), *others))
    assert is_uneven(replace(even, root=moved), array)


def test_alike_devices_and_single_ones_are_never_uneven() -> None:
    homogeneous = load_array("accpar-homogeneous")
    plan = plan_of(Case(ALEXNET, "accpar", homogeneous, 512))
    assert not is_uneven(plan, homogeneous)
    single = load_array("accpar-homogeneous", ["devices.0.count=1"])
    assert not is_uneven(plan_of(Case(ALEXNET, "accpar", single, 512)), single)


def test_the_slow_share_counts_flops() -> None:
    (slow, _), (fast, _) = MIXED.group.kinds
    array = of_kinds((slow, 1), (fast, 3))
    timeline = step_of(Case(ALEXNET, "data_parallel", array, 512))[1]
    assert slow_share(timeline, array) == pytest.approx(0.25, rel=1e-3)
    alike = load_array("accpar-homogeneous")
    timeline = step_of(Case(ALEXNET, "data_parallel", alike, 512))[1]
    assert slow_share(timeline, alike) is None
