"""One shared medium: what a level moves, all of it, over one bandwidth."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Array, Device, Group, Topology, load_array
from planners import (
    PLANNERS,
    Partition,
    PartitionType,
    Plan,
    PlanError,
    Split,
    load_planner,
    predict,
)
from planners.partition import IV, legal
from simulator import simulate
from tests.strategies import devices, networks
from workloads import Network, load_network, partition_graph

LENET = load_network("lenet")


def bus_of(device: Device, levels: int) -> Array:
    return Array("bus", "", Group(((device, 2**levels),)), topology=Topology("bus"))


@st.composite
def alike(draw: st.DrawFn, network: Network, batch: int, levels: int) -> Plan:
    """Any types, every half treated as the other."""
    graph = partition_graph(network)
    names = tuple(node.name for node in graph)
    split: Split | None = None
    for _ in range(levels):
        kinds = [
            draw(st.sampled_from([kind for kind in legal(node) if kind is not IV]))
            for node in graph
        ]
        split = Split(tuple(Partition(kind, 0.5) for kind in kinds), 0.0, (split,))
    return Plan("random", network.name, batch, "time", names, split)


@settings(max_examples=40, deadline=None)
@given(st.data(), devices(), st.integers(0, 4), st.integers(1, 16))
def test_time_is_computing_and_all_bytes_over_one_bandwidth(
    data: st.DataObject, device: Device, levels: int, batch: int
) -> None:
    network = data.draw(networks())
    plan = data.draw(alike(network, batch, levels))
    array = bus_of(device, levels)
    timeline = simulate(network, plan, array)
    flops = math.fsum(total.flops for total in timeline.totals().values())
    computing = flops / (2**levels * device.peak_flops_per_s)
    expected = computing + timeline.traffic_bytes / device.network_bytes_per_s
    rounding_s = (len(timeline.operations) + 1) * 1e-12
    assert timeline.iteration_s == pytest.approx(expected, rel=1e-9, abs=rounding_s)
    assert predict(network, plan, array) == pytest.approx(
        timeline.iteration_s, rel=1e-9, abs=rounding_s
    )
    unfolded = simulate(network, plan, array, folded=False)
    assert unfolded.iteration_ps == timeline.iteration_ps
    assert unfolded.totals() == timeline.totals()
    tree = replace(array, topology=Topology())
    assert simulate(network, plan, tree).iteration_ps <= timeline.iteration_ps
    assert simulate(network, plan, tree).totals().keys() == timeline.totals().keys()


@pytest.mark.parametrize("planner", [*PLANNERS, "model_parallel"])
def test_planners_know_the_medium(planner: str) -> None:
    """Costs of the levels, times the splits that share one, are what the engine spends."""
    array = load_array("hypar-16")
    plan = load_planner(planner)(LENET, array, 256)
    timeline = simulate(LENET, plan, array)
    assert predict(LENET, plan, array) == pytest.approx(timeline.iteration_s, rel=1e-9)
    if planner == "hypar":  # prices traffic alone
        exchanged = math.fsum(split.cost for split in plan.levels() or [])
        moved_s = timeline.traffic_bytes / array.group.kinds[0][0].network_bytes_per_s
        assert exchanged == pytest.approx(moved_s, rel=1e-9)


@pytest.mark.parametrize("count", [3, 6, 12])
def test_unlike_halves_have_no_share_of_a_medium(count: int) -> None:
    array = load_array("hypar-16", [f"devices.0.count={count}"])
    with pytest.raises(PlanError, match=f"'hypar-16, .*'.*these are {count}, in 1 kinds"):
        load_planner("hypar")(LENET, array, 256)
    on_tree = load_planner("hypar")(LENET, replace(array, topology=Topology()), 256)
    for run in (simulate, predict):
        with pytest.raises(PlanError, match="one shared medium"):
            run(LENET, on_tree, array)


def test_a_plan_of_other_shares_is_refused() -> None:
    array = load_array("hypar-16", ["devices.0.count=2"])
    names = tuple(node.name for node in partition_graph(LENET))
    uneven = Split(tuple(Partition(PartitionType.I, 0.25) for _ in names), 0.0, (None, None))
    with pytest.raises(PlanError, match="plans that treat all halves alike"):
        simulate(LENET, Plan("p", "lenet", 8, "time", names, uneven), array)
