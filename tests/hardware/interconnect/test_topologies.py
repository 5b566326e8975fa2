"""The table of topologies: one line makes one, in spec files, faults, routes and bandwidths."""

from pathlib import Path

import numpy as np
import pytest

from hardware import SpecError, Topology, bisection_of, by_core, load_array, wires_of
from hardware.interconnect.fabric import Nodes
from hardware.interconnect.one_hop import Switch
from hardware.interconnect.topologies import DESIGNS, Design, fabric_of
from hardware.topology import near_square
from tests.wiring import KINDS

POD = 'kind = "array"\n[[devices]]\ndevice = "tpu-v2"\ncount = 4\n'


def test_the_tests_know_every_topology() -> None:
    assert set(KINDS) == set(DESIGNS)


def test_a_line_of_the_table_is_all_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hub: a switch of one link's bandwidth, for up to eight chips."""
    asked = []

    def build(topology: Topology, nodes: Nodes) -> Switch:
        asked.append((topology, nodes))
        return Switch(nodes.ports, nodes.latency_s, nodes.label)

    monkeypatch.setitem(DESIGNS, "hub", Design(build, keys=("shape",), most=16))
    path = tmp_path / "pod.toml"
    path.write_text(POD + '[topology]\nkind = "hub"\njoins = "chips"\nshape = [16]\n')
    array = load_array(str(path))
    wires = wires_of(by_core(array))
    assert wires.names[16] == "chip0 up"
    first, second = bisection_of(by_core(array)).halves(array.group)
    assert first.link_bytes_per_s == second.link_bytes_per_s == 8 * 62e9
    ((topology, nodes),) = asked
    assert topology == Topology("hub", "chips", (16,))
    assert (nodes.group.size, nodes.name, nodes.label(3)) == (16, "chip", "chip3")
    assert nodes.latency_s.tolist() == [1.5e-6] * 16
    path.write_text(POD.replace("4", "8") + '[topology]\nkind = "hub"\njoins = "chips"\n')
    with pytest.raises(SpecError, match=r"topology.kind: 32 tpu-v2 chips; at most 16 hub"):
        load_array(str(path))


@pytest.mark.parametrize("kind", DESIGNS)
def test_a_topologys_own_bandwidth_and_latency_replace_the_nodes(kind: str) -> None:
    group = load_array("accpar-homogeneous", ["devices.0.count=6"]).group
    nodes = Nodes(group, np.array([1e9, 2e9, 3e9, 4e9, 5e9, 6e9]), np.linspace(0, 5e-6, 6), "board")
    plain = fabric_of(Topology(kind, factor=1.0 if kind == "tree" else 2.0), nodes)
    own = Topology(kind, factor=1.0 if kind == "tree" else 2.0, bytes_per_s=7e9, latency_s=3e-6)
    replaced = fabric_of(own, nodes)
    assert set(replaced.bandwidth.tolist()) == {7e9}
    assert plain.bandwidth.max() <= 6e9
    sources, targets = np.array([0, 4]), np.array([1, 5])
    assert (replaced.latencies(sources, targets) >= 3e-6).all()
    assert plain.names() == replaced.names()


@pytest.mark.parametrize(
    ("kind", "nodes", "links"),
    [
        ("tree", 16, 1),
        ("bus", 16, 1),
        ("switch", 16, 1),
        ("fully_connected", 16, 15),
        ("ring", 2, 1),
        ("ring", 3, 2),
        ("ring", 1, 0),
        ("torus", 16, 4),
        ("torus", 8, 3),
        ("torus", 4, 2),
        ("mesh", 9, 4),
    ],
)
def test_links_that_a_chip_needs(kind: str, nodes: int, links: int) -> None:
    assert DESIGNS[kind].links(Topology(kind), nodes) == links


def test_a_chip_sends_with_all_its_links_where_any_leads_anywhere() -> None:
    for kind in DESIGNS:
        change = [f"topology.kind={kind}", "topology.joins=chips", "devices.0.count=1"]
        wires = wires_of(load_array("tpu-v2-pod", change))
        assert wires.bandwidth[-1] == (4 if kind in ("tree", "switch") else 1) * 62e9


def test_only_grids_tell_nodes_by_their_place() -> None:
    group = load_array("accpar-homogeneous", ["devices.0.count=4"]).group
    nodes = Nodes(group, np.full(4, 1e9), np.zeros(4), "board")
    placed = {kind for kind in DESIGNS if fabric_of(Topology(kind), nodes).has_places}
    assert placed == {"ring", "torus", "mesh"}


@pytest.mark.parametrize("count", range(1, 200))
def test_the_nearest_factors(count: int) -> None:
    wanted = min(
        ((a, count // a) for a in range(1, count + 1) if count % a == 0 and a * a >= count),
        key=lambda sides: sides[0] - sides[1],
    )
    assert near_square(count) == wanted


FLAT = ("ring-8", "tpu-v3-8", "hypar-16-torus", "tpu-mixed", "accpar-mixed-switch", "ethernet-100g")


@pytest.mark.parametrize("name", [*FLAT, "mixed-a100-h100"])
def test_a_stacks_share_is_of_all_links(tmp_path: Path, name: str) -> None:
    """Of those inside boards, too, and between kinds of boards; not of HBM."""
    path = tmp_path / "ours.toml"
    path.write_text('kind = "stack"\n[habits]\ncollectives = 0.25\n')
    plain, ours = (wires_of(by_core(load_array(name, [f"stack={s}"]))) for s in ("none", path))
    hbm = plain.subnets[0].links.stop
    assert ours.bandwidth[:hbm].tolist() == plain.bandwidth[:hbm].tolist()
    assert ours.bandwidth[hbm:] == pytest.approx(0.25 * plain.bandwidth[hbm:], rel=1e-12)
    assert ours.latency_s.tolist() == plain.latency_s.tolist()
    assert ours.topology_key == plain.topology_key or name not in FLAT


HALF = """kind = "array"
[[devices]]
device = "a100-80"
count = 4
network = {bandwidth = "10 GB/s", latency = "1 us", half_size = "1 MB"}
links = {per_chip = 2, bandwidth = "10 GB/s", latency = "2 us", half_size = "1 MB"}
[topology]
"""


@pytest.mark.parametrize(
    ("topology", "latency_us"),
    [
        ('kind = "switch"', 1 + 100),
        ('kind = "switch"\nbandwidth = "20 GB/s"', 1 + 50),
        ('kind = "switch"\nbandwidth = "20 GB/s"\nlatency = "7 us"', 7),
        ('kind = "ring"\njoins = "chips"', 2 + 100),
        ('kind = "ring"\njoins = "chips"\nbandwidth = "5 GB/s"', 2 + 200),
        ('kind = "switch"\njoins = "chips"\nbandwidth = "20 GB/s"', 2 + 100),  # as both links
        ('joins = "chips"\n[[topology.levels]]\nkind = "ring"\nefficiency = 0.5', 2 + 200),
        ('joins = "chips"\n[[topology.levels]]\nkind = "switch"\nefficiency = 0.5', 2 + 200),
    ],
)
@pytest.mark.parametrize("share", [1.0, 0.5])
def test_half_a_messages_bytes_go_at_the_bandwidth_that_is_used(
    tmp_path: Path, topology: str, latency_us: float, share: float
) -> None:
    """s bytes take latency + (s + half size) / bandwidth, whichever of them is in use."""
    stack = tmp_path / "ours.toml"
    stack.write_text(f'kind = "stack"\n[habits]\ncollectives = {share}\n')
    path = tmp_path / "array.toml"
    path.write_text(HALF + topology)
    wires = wires_of(by_core(load_array(str(path), [f"stack={stack}"])))
    latency_s = wires.message_latency_s(0, 1)
    own = 7 if latency_us == 7 else latency_us % 10
    assert latency_s == pytest.approx((own + (latency_us - own) / share) * 1e-6)


def test_the_port_out_of_a_node_too(tmp_path: Path) -> None:
    levels = '[[topology.levels]]\nkind = "switch"\nmembers = 2\n'
    levels += '[[topology.levels]]\nkind = "switch"\nefficiency = 0.25\n'
    path = tmp_path / "array.toml"
    path.write_text(HALF + 'joins = "chips"\n' + levels)
    wires = wires_of(by_core(load_array(str(path), ["stack=none"])))
    assert wires.message_latency_s(0, 2) == pytest.approx(401e-6)
