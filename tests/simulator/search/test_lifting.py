"""Plans of some devices in an array of more: the others are idle and nothing is charged."""

from dataclasses import replace

import pytest

from hardware import Array, Group, Topology, catalog_names, load_array, wires_of
from hardware.topology import Tier
from planners import PLANNERS, Plan, predict
from simulator import DEPLOYED, PUBLISHED, Execution, simulate
from simulator.lowering.models import rules_of
from simulator.search.candidates import alone, idle, leaves_of, lifted, powers_of_two, shared
from workloads import load_network

NETWORK = load_network("lenet")
MIXED = load_array("accpar-mixed", ["devices.0.count=4", "devices.1.count=8"])


def on_part(array: Array, execution: Execution, kind: int, size: int) -> tuple[Array, Plan, Plan]:
    """Some devices as an array, AccPar's plan of it, and that plan lifted onto the whole."""
    planned = execution.planned(array)
    device = array.group.kinds[kind][0]
    part = alone(planned, device, size)
    assert part is not None
    plan = PLANNERS["accpar"](NETWORK, part, 512)
    root = lifted(plan.root, planned.group, device, size, len(plan.nodes))
    return part, plan, replace(plan, root=root)


@pytest.mark.parametrize("kind", [0, 1])
@pytest.mark.parametrize("size", [1, 2, 4])
def test_published_idle_boards_change_nothing(kind: int, size: int) -> None:
    part, plan, whole = on_part(MIXED, PUBLISHED, kind, size)
    expected = simulate(NETWORK, plan, part).iteration_s
    for folded in (True, False):
        assert simulate(NETWORK, whole, MIXED, folded=folded).iteration_s == expected
    assert predict(NETWORK, whole, MIXED) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(("kind", "size"), [(0, 32), (1, 8), (1, 2), (0, 1)])
def test_deployed_idle_cores_change_nothing_behind_a_switch(kind: int, size: int) -> None:
    array = replace(MIXED, topology=Topology("switch"))
    part, plan, whole = on_part(array, DEPLOYED, kind, size)
    expected = simulate(NETWORK, plan, part, DEPLOYED).iteration_s
    step = simulate(NETWORK, whole, array, DEPLOYED)
    assert step.iteration_s == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("bucket_bytes", [0.0, 1e6])
@pytest.mark.parametrize("planner", ["owt", "hypar", "accpar"])
@pytest.mark.parametrize("boards", [4, 12])
def test_idle_cores_change_no_bucket(boards: int, planner: str, bucket_bytes: float) -> None:
    """Who has nothing of a layer has nothing of its gradient: buckets hold as much as without.

    Eight cores are on one of four boards; of twelve, 64 are on two of every three.
    """
    array = load_array("accpar-homogeneous", [f"devices.0.count={boards}"])
    planned = DEPLOYED.planned(array)
    device, size = planned.group.kinds[0][0], 8 if boards == 4 else 64
    part = alone(planned, device, size)
    assert part is not None
    plan = PLANNERS[planner](NETWORK, part, 512)
    root = lifted(plan.root, planned.group, device, size, len(plan.nodes))
    execution = replace(DEPLOYED, bucket_bytes=bucket_bytes)
    whole = rules_of(NETWORK, replace(plan, root=root), array, execution, folded=True)
    assert whole.items == rules_of(NETWORK, plan, part, execution, folded=True).items


def test_eight_of_twelve_are_two_of_every_three() -> None:
    device = MIXED.group.kinds[0][0]
    group = Group(((device, 12),))
    array = Array("twelve", "", group)
    part = alone(array, device, 8)
    assert part is not None
    plan = PLANNERS["hypar"](NETWORK, part, 512)
    whole = replace(plan, root=lifted(plan.root, group, device, 8, len(plan.nodes)))
    expected = simulate(NETWORK, plan, part).iteration_s
    step = simulate(NETWORK, whole, array, folded=False)
    assert step.iteration_s == expected
    busy = {record.resource.split(".")[0] for record in step if record.flops}
    assert len(busy) == 8


def test_subsets_are_all_of_a_kind_and_its_powers_of_two() -> None:
    first, second = (device for device, _ in MIXED.group.kinds)
    array = Array("odd", "", Group(((first, 6), (second, 1))))
    assert list(powers_of_two(array)) == [
        *((first, size) for size in (6, 4, 2, 1)),
        (second, 1),
    ]
    assert leaves_of(array.group, second) == 1


def test_half_a_board_is_a_board_of_fewer_chips() -> None:
    planned = DEPLOYED.planned(MIXED)
    device = MIXED.group.kinds[0][0]
    for size, (chips, cores) in {8: (4, 2), 4: (2, 2), 2: (1, 2), 1: (1, 1)}.items():
        part = alone(planned, device, size)
        assert part is not None
        ((small, boards),) = part.group.kinds
        assert (small.chips, small.cores_per_chip, boards) == (chips, cores, 1)
        assert part.group.peak_flops_per_s == pytest.approx(device.peak_flops_per_s * size / 8)


def test_one_share_wherever_kinds_part() -> None:
    (first, _), (second, _) = MIXED.group.kinds
    third = replace(first, name="third")
    group = Group(((first, 2), (second, 2), (third, 2)))
    plan = PLANNERS["accpar"](NETWORK, Array("three", "", group), 512)
    split = shared(plan.root, group, (1.0, 2.0, 5.0))
    assert split is not None
    assert {partition.share for partition in split.partitions} == {3 / 8}
    below = split.halves[0]
    assert below is not None
    assert {partition.share for partition in below.partitions} == {1 / 3}
    assert plan.root is not None
    assert split.types == plan.root.types
    assert idle(Group(((first, 1),)), 3) is None


@pytest.mark.parametrize("name", catalog_names("array"))
def test_subsets_of_every_array_have_wires(name: str) -> None:
    """Whatever tiers, tori and cables join the whole: 4 of 8 GPUs of each node, or half a slice."""
    planned = DEPLOYED.planned(load_array(name))
    for device, size in powers_of_two(planned):
        part = alone(planned, device, size)
        assert part is not None
        assert part.group.size == size
        wires_of(part)


def test_tiers_of_a_subset_are_those_that_it_has_in_the_whole() -> None:
    """Of three nodes of three cores 4 are two of each of two; 2 are of one, with their ports."""
    inner, outer = Tier("ring", 3, 1e11), Tier("switch", 0, 1e10, rails=3)
    device = replace(MIXED.group.kinds[0][0], chips=1, cores_per_chip=1)
    topology = Topology("tiers", joins="chips", levels=(inner, outer))
    array = Array("nodes", "", Group(((device, 9),)), topology=topology)
    found = {size: alone(array, device, size) for size in (8, 4, 2, 1)}
    tiers = {
        size: [(tier.members, tier.rails) for tier in part.topology.levels]
        for size, part in found.items()
        if part is not None
    }
    assert tiers == {
        8: [(2, 1), (4, 2)],
        4: [(2, 1), (2, 2)],
        2: [(2, 1), (1, 2)],
        1: [(1, 1), (1, 1)],
    }
