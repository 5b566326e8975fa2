"""Joules are sums over records, of each device's own parameters."""

import math

import pytest

from hardware import load_array
from planners import load_planner
from simulator import simulate
from workloads import load_network

PARAMETERS = [
    f"devices.{i}.energy.{key}={value}"
    for i in (0, 1)
    for key, value in (("mac", "4 pJ"), ("transfer", "100 pJ/B"))
]


@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize("planner", ["data_parallel", "accpar"])
def test_the_sum_over_records(planner: str, folded: bool) -> None:
    array = load_array("accpar-mixed", ["devices.0.count=4", "devices.1.count=4", *PARAMETERS])
    network = load_network("lenet")
    plan = load_planner(planner)(network, array, 512)
    timeline = simulate(network, plan, array, folded=folded)
    records = list(timeline)
    expected = math.fsum(
        r.multiplicity * (r.flops / 2 * 4e-12 + r.bytes * 100e-12) for r in records
    )
    assert timeline.energy_j == pytest.approx(expected, rel=1e-12)
    moved = math.fsum(r.multiplicity * r.bytes for r in records)
    assert timeline.traffic_bytes == pytest.approx(moved, rel=1e-12)
    assert min(total.energy_j for total in timeline.totals().values()) > 0


def test_each_side_pays_for_what_it_receives() -> None:
    """Two boards, data parallel: each receives all gradients, at its own price."""
    changes = ["devices.0.count=1", "devices.1.count=1", *PARAMETERS]
    changes += ["devices.1.energy.transfer=300 pJ/B", "devices.1.energy.mac=12 pJ"]
    array, network = load_array("accpar-mixed", changes), load_network("lenet")
    plan = load_planner("data_parallel")(network, array, 512)
    timeline = simulate(network, plan, array)
    macs = [f / 2 for f in timeline.flops_by_device().values()]
    gradients = network.weights * 2
    expected = macs[0] * 4e-12 + macs[1] * 12e-12 + gradients * (100e-12 + 300e-12)
    assert timeline.energy_j == pytest.approx(expected, rel=1e-12)


def test_a_device_without_energies_has_none() -> None:
    array, network = load_array("accpar-mixed", PARAMETERS[:2]), load_network("lenet")
    plan = load_planner("owt")(network, array, 512)
    assert simulate(network, plan, array).energy_j is None
