"""Joules are sums over records, of each device's own parameters, under both models."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.studies.case import Case, step_of
from hardware import Array, Device, Energy, Group, Topology, by_core, load_array
from planners import load_planner
from planners.order import Kind, Phase
from simulator import DEPLOYED, PUBLISHED, Timeline, simulate
from simulator.cost.energy import computing_j, receiving_j
from workloads import Builder, Network, load_network

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


CHEAP = Device("cheap", 1, 2, 1e12, 1e9, 1e9, 1e9, energy=Energy(4e-12, 30e-12, 100e-12))
DEAR = replace(CHEAP, name="dear", chips=3, energy=Energy(12e-12, 90e-12, 500e-12))
FREE = replace(CHEAP, name="free", energy=None)


def test_multiply_adds_and_bytes_of_hbm_by_hand() -> None:
    assert computing_j(CHEAP, 10.0) == pytest.approx(5 * 4e-12)
    assert computing_j(CHEAP, 0.0, 7.0) == pytest.approx(7 * 30e-12)
    assert computing_j(DEAR, 10.0, 7.0) == pytest.approx(5 * 12e-12 + 7 * 90e-12)
    assert computing_j(FREE, 10.0, 7.0) == 0.0


@given(st.floats(0, 1e15), st.floats(0, 1e15), st.floats(0, 1e15), st.floats(0, 1e15))
def test_joules_add_up(flops: float, moved: float, more: float, also: float) -> None:
    """Splitting an operation into two costs nothing."""
    together = computing_j(DEAR, flops + more, moved + also)
    apart = computing_j(DEAR, flops, moved) + computing_j(DEAR, more, also)
    assert together == pytest.approx(apart)


def test_each_side_at_its_own_price_and_mixed_sides_at_their_mean() -> None:
    cheap, dear, free = (Group(((device, 2),)) for device in (CHEAP, DEAR, FREE))
    assert receiving_j((cheap, dear), (8.0, 3.0)) == pytest.approx(8 * 100e-12 + 3 * 500e-12)
    assert receiving_j((dear, cheap), (8.0, 3.0)) == pytest.approx(8 * 500e-12 + 3 * 100e-12)
    assert receiving_j((cheap, free), (8.0, 3.0)) == pytest.approx(8 * 100e-12)
    mixed = Group(((CHEAP, 3), (DEAR, 1)))  # boards: published, each is one accelerator
    assert receiving_j((mixed,), (8.0,)) == pytest.approx(8 * (3 * 100e-12 + 500e-12) / 4)


def test_with_wires_a_sides_mean_is_over_its_cores() -> None:
    """Three cheap boards of two cores and one dear board of six: half of the cores are dear."""
    kinds = Group(((CHEAP, 3), (DEAR, 1)))
    array = by_core(Array("mixed", "", kinds, topology=Topology("switch")))
    assert receiving_j((array.group,), (8.0,)) == pytest.approx(8 * 300e-12)
    one, two = array.group.halves()
    assert receiving_j((one, two), (8.0, 3.0)) == pytest.approx(8 * 100e-12 + 3 * 500e-12)
    while two.size > 1:  # down to a chip's cores, the price is the device's
        two = two.halves()[0]
        assert receiving_j((two,), (3.0,)) == pytest.approx(3 * 500e-12)


def two_layers() -> Network:
    """Products that both models count alike: no bias, and no map to count backward on."""
    net = Builder("two", 64, 1)
    net.fc("one", 32)
    net.fc("two", 16)
    return net.build()


def both_models(*changes: str) -> tuple[Timeline, Timeline]:
    """Data parallel on two boards of one core each, in which all of HyPar's numbers have 4 B."""
    array = load_array("hypar-16", ["devices.0.count=2", *changes])
    network = two_layers()
    first, second = (
        step_of(Case(network, "data_parallel", array, 8, execution=execution))[1]
        for execution in (PUBLISHED, DEPLOYED)
    )
    return first, second


AGREE = [(Phase.FORWARD, Kind.COMPUTE), (Phase.GRADIENT, Kind.COMPUTE), (Phase.GRADIENT, Kind.SUMS)]


@pytest.mark.parametrize(("phase", "kind"), AGREE)
def test_one_price_for_both_models(phase: Phase, kind: Kind) -> None:
    """The published joules are those of the amounts that deployed operations have."""
    published, deployed = both_models()
    ((device, _),) = load_array("hypar-16").group.kinds
    sides = Group(((device, 1),)), Group(((device, 1),))
    operations = deployed.operations
    joules = 0.0
    for op in operations:
        if (op.phase, op.kind) == (phase, kind):
            each = computing_j(device, op.flops) if op.flops else receiving_j(sides, op.received)
            joules += each * (2 if op.flops else 1)  # both cores compute; both sides meet once
    assert joules == pytest.approx(published.totals()[phase, kind].energy_j, rel=1e-12)
    assert joules > 0


@pytest.mark.parametrize(("phase", "kind"), AGREE)
def test_where_rules_agree_so_do_joules(phase: Phase, kind: Kind) -> None:
    published, deployed = both_models()
    expected = published.totals()[phase, kind].energy_j
    assert deployed.totals()[phase, kind].energy_j == pytest.approx(expected, rel=1e-12)


def test_deployed_joules_are_those_of_its_records() -> None:
    """FLOPs, bytes of HBM and bytes received, each at its price; HBM is not free here."""
    _, deployed = both_models("devices.0.energy.hbm=30 pJ/B")
    expected = 0.0
    for record in deployed:
        price = 30e-12 if record.kind == "memory" else 640e-12
        expected += record.multiplicity * (record.flops / 2 * 4.6e-12 + record.bytes * price)
    assert deployed.energy_j == pytest.approx(expected, rel=1e-9)
    assert any(record.kind == "memory" for record in deployed)
