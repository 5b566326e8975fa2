"""A shared medium: what the published model cannot say of it is refused, by name and remedy."""

from dataclasses import replace

import pytest

from hardware import Array, Group, Topology, by_core, load_array, load_device
from planners import Partition, PartitionType, Plan, PlanError, Split, load_planner, predict
from planners.cost.shared_medium import check_array, check_medium
from workloads import load_network

I = PartitionType.I  # noqa: E741
BUS = load_array("hypar-16")


def of(count: int, *others: int, kind: str = "bus") -> Array:
    cube, chip = load_device("hypar-hmc")[0], replace(load_device("hypar-hmc")[0], name="other")
    kinds = ((cube, count), *((chip, n) for n in others))
    return Array("mine", "", Group(kinds), topology=Topology(kind))


@pytest.mark.parametrize("count", [1, 2, 4, 64, 1024])
def test_a_power_of_two_of_like_devices_is_fine(count: int) -> None:
    check_array(of(count))


@pytest.mark.parametrize(
    ("counts", "size", "kinds"),
    [
        ((3,), 3, 1),
        ((6,), 6, 1),
        ((1023,), 1023, 1),
        ((2, 2), 4, 2),
        ((1, 1), 2, 2),
    ],
)
def test_anything_else_is_refused(counts: tuple[int, ...], size: int, kinds: int) -> None:
    with pytest.raises(PlanError) as caught:
        check_array(of(*counts))
    message = str(caught.value)
    assert "array 'mine': topology.kind = 'bus'" in message
    assert f"these are {size}, in {kinds} kinds" in message
    assert "Change devices.*.count, or use kind = 'tree'" in message


def test_other_topologies_and_real_wires_may_be_any_number() -> None:
    for kind in ("tree", "switch", "ring", "fully_connected"):
        check_array(of(3, 2, kind=kind))
    check_array(by_core(of(3)))  # its wires have the bus


def plan(share: float, halves: int) -> Plan:
    inner = Split((Partition(I, 0.5),), 0.0, (None,))
    root = Split((Partition(I, share),), 0.0, (inner,) * halves)
    return Plan("mine", "net", 4, "time", ("a",), root)


@pytest.mark.parametrize(("share", "halves"), [(0.25, 1), (0.5, 2), (0.25, 2)])
def test_plans_that_treat_halves_unlike_are_refused(share: float, halves: int) -> None:
    with pytest.raises(PlanError, match=r"plan for 'net': array 'mine' is one shared medium"):
        check_medium(of(4), plan(share, halves))
    check_medium(of(4, kind="tree"), plan(share, halves))


def test_plans_that_treat_halves_alike_are_not() -> None:
    check_medium(of(4), plan(0.5, 1))
    with pytest.raises(PlanError, match="these are 3"):
        check_medium(of(3), plan(0.5, 1))


@pytest.mark.parametrize("planner", ["data_parallel", "owt", "hypar", "accpar", "model_parallel"])
def test_no_planner_plans_for_unlike_halves_of_a_bus(planner: str) -> None:
    with pytest.raises(PlanError, match="one medium among a power of two of like devices"):
        load_planner(planner)(load_network("lenet"), of(6), 64)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_a_level_moves_all_it_moves_over_one_bandwidth(levels: int) -> None:
    """Of 2^k devices under data parallelism: sum over levels of 2 * 2^level streams of W."""
    network = load_network("hypar-lenet-c")
    array = load_array("hypar-16", [f"devices.0.count={2**levels}"])
    made = load_planner("data_parallel")(network, array, 64)
    ((cube, _),) = array.group.kinds
    weights = network.weights * 4
    moved_s = sum(2 * 2**level * weights / cube.network_bytes_per_s for level in range(levels))
    fast = replace(cube, network_bytes_per_s=1e30)
    unhindered = replace(array, group=Group(((fast, 2**levels),)))
    found_s = predict(network, made, array) - predict(network, made, unhindered)
    assert found_s == pytest.approx(moved_s)
