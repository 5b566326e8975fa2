"""The catalog: every spec has sources for its values; what machines of papers and vendors are."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest

from hardware import (
    Arithmetic,
    SpecError,
    Topology,
    Wires,
    catalog_models,
    catalog_names,
    load_array,
    load_device,
    load_stack,
    spec_kind,
)
from hardware.spec import catalog, catalog_rows
from hardware.topology import near_cubic
from simulator import DEPLOYED, PUBLISHED, usual
from tests.routes import route

GPUS = {
    "v100-32": (125, 32, 900, 100),
    "a100-40": (312, 40, 1555, 200),
    "a100-80": (312, 80, 2039, 200),
    "h100-sxm": (989, 80, 3350, 400),
    "h200": (989, 140, 4800, 400),
    "b200": (2250, 179, 8000, 400),
    "gb200": (2500, 184, 8000, 400),
}
TPUS = {
    "tpu-v4": (275, 32, 1200, 2400),
    "tpu-v5e": (197, 16, 819, 1600),
    "tpu-v5p": (459, 95, 2765, 4800),
    "tpu-v6e": (918, 32, 1638, 3200),
    "tpu-v7x": (2307, 192, 7380, 4800),
}
CLUSTERS = [name for name in catalog_names("array") if name.endswith(("-cluster", "-slice"))]


@pytest.mark.parametrize("name", [*GPUS, *TPUS])
def test_a_chip_is_what_its_data_sheet_says(name: str) -> None:
    """A GPU has one core and a port; Google gives the sum of a chip's links, each way."""
    peak, memory, bandwidth, gbit_per_s = (GPUS | TPUS)[name]
    device, _ = load_device(name)
    assert device.peak_flops_per_s == peak * 1e12
    assert device.hbm_capacity_bytes == memory * 2**30
    assert device.hbm_bytes_per_s == bandwidth * 1e9
    sent = device.network_bytes_per_s
    if name in TPUS:
        assert device.links is not None
        sent = device.links.per_chip * device.links.bytes_per_s
    assert 8e-9 * sent == pytest.approx(gbit_per_s)
    assert device.cores == 1 or name in TPUS


@pytest.mark.parametrize("name", CLUSTERS)
def test_nodes_multiply_what_a_node_has(name: str) -> None:
    """Sixteen nodes: sixteen regions of the inner tier, joined by the outer one."""
    ((_, each),) = load_array(name, ["nodes=1"]).group.kinds
    array = load_array(name, ["nodes=16"])
    assert array.group.size == 16 * each
    assert array.name == f"{name}, nodes=16"
    wires = Wires(array)
    inside, outside = wires.subnets[1:]
    assert len(set(inside.region.tolist())) == 16
    assert set(outside.region.tolist()) == {0}
    ports = 4 if name == "v100-cluster" else each  # a port for every chip
    assert len(set(outside.node.tolist())) == 16 * ports


def test_a_list_counts_all_nodes() -> None:
    sizes = {name: size for name, size, _ in catalog_rows("array")}
    assert (sizes["h100-cluster"], sizes["gb200-cluster"], sizes["tpu-v3-pod"]) == (32, 144, 256)


def test_copies_of_a_torus_are_not_joined() -> None:
    with pytest.raises(SpecError, match="nodes: a torus has no links to another one"):
        load_array("tpu-v3-pod", ["nodes=2"])


def test_nodes_of_other_sizes() -> None:
    array = load_array("a100-cluster", ["devices.0.count=4", "nodes=8"])
    assert [tier.members for tier in array.topology.levels] == [4, 0]
    assert array.group.size == 32


def test_a_network_of_less_than_all_its_ports() -> None:
    """32 ports of 25 GB/s; over a 2:1 network half of them together, and half of that each way."""
    array = load_array("a100-cluster", ["topology.levels.1.oversubscription=2"])
    halves = range(16), range(16, 32)
    assert Wires(array).injection_bytes_per_s(*halves) == 32 * 25e9 / 2 / 2
    assert Wires(load_array("a100-cluster")).injection_bytes_per_s(*halves) == 16 * 25e9


@pytest.mark.parametrize(
    ("name", "chips", "shape"),
    [
        ("tpu-v5p-slice", 64, (4, 4, 4)),
        ("tpu-v5p-slice", 256, (8, 8, 4)),
        ("tpu-v5p-slice", 6144, (24, 16, 16)),
        ("tpu-v4-slice", 4096, (16, 16, 16)),
        ("tpu-v5e-slice", 256, (16, 16)),
        ("tpu-v6e-slice", 32, (8, 4)),
    ],
)
def test_slices_are_as_cubic_as_they_can(name: str, chips: int, shape: tuple[int, ...]) -> None:
    array = load_array(name, [f"devices.0.count={chips}"])
    assert Wires(array).subnets[1].fabric.shape == shape  # type: ignore[attr-defined]


def test_the_most_cubic_shape_has_the_least_longest_side() -> None:
    for count in (1, 2, 7, 12, 36, 64, 100, 128, 360):
        sides = range(1, count + 1)
        all_three = [s for s in product(sides, sides) if count % prod(s) == 0]
        longest = min(max(*s, count // prod(s)) for s in all_three)
        found = near_cubic(count, 3)
        assert (prod(found), found[0]) == (count, longest)
        assert list(found) == sorted(found, reverse=True)
    assert near_cubic(12, 1) == (12,)
    assert near_cubic(12, 2) == (4, 3)


def test_hypars_cube_and_array() -> None:
    array = load_array("hypar-16")
    ((cube, count),) = array.group.kinds
    assert (count, array.topology.kind) == (16, "bus")
    assert cube.arithmetic == Arithmetic(4.0, fused=True)
    assert cube.energy is not None
    assert cube.energy.mac_j == pytest.approx(4.6e-12)
    assert cube.energy.transfer_j_per_byte == pytest.approx(640e-12)
    assert cube.energy.hbm_j_per_byte == 0.0
    assert cube.peak_flops_per_s / cube.network_bytes_per_s == pytest.approx(335.2, rel=1e-3)


@pytest.mark.parametrize("name", catalog_names("device"))
def test_a_device_says_itself_and_its_sources(name: str) -> None:
    device, settings = load_device(name)
    assert (device.name, spec_kind(name)) == (name, "device")
    keys = {setting.key for setting in settings}
    peak = "units.clock" if "units.clock" in keys else "chip.peak"
    assert keys >= {"chips", "chip.cores", peak, "hbm.capacity", "hbm.bandwidth"}
    if name in ("tpu-v2", "tpu-v3"):
        assert {"roofline.overhead", "roofline.tile", "roofline.pad_matrix_unit"} <= keys
    assert not [s for s in settings if s.source.startswith("set in")]
    assert (name, device.cores, device.description) in catalog_rows("device")


PAPERS = ("accpar-mixed", "accpar-homogeneous", "hypar-16")


@pytest.mark.parametrize("name", catalog_names("array"))
def test_an_array_says_itself_its_sources_and_its_model(name: str) -> None:
    array = load_array(name)
    assert (array.name, spec_kind(name)) == (name, "array")
    assert not [s for s in array.settings if s.source.startswith("set in")]
    assert (name, array.group.size, array.description) in catalog_rows("array")
    assert array.model == ("published" if name in PAPERS else "deployed") == catalog_models()[name]
    assert usual(array) == (PUBLISHED if name in PAPERS else DEPLOYED)


@pytest.mark.parametrize("name", catalog_names("stack"))
def test_a_stack_says_itself_its_sources_and_its_chips(name: str) -> None:
    stack, settings = load_stack(name)
    assert (stack.name, spec_kind(name)) == (name, "stack")
    assert stack.description
    assert not [s for s in settings if s.source.startswith("set in")]
    chips = {s.key.split(".")[1] for s in settings if s.key.startswith("chips.")}
    assert chips <= set(catalog_names("device"))


def test_everything_in_the_catalog_is_one_of_these() -> None:
    names = [*catalog_names("device"), *catalog_names("array"), *catalog_names("stack")]
    assert sorted(names) == sorted(catalog())


def test_the_papers_arrays() -> None:
    v2, v3 = (load_device(f"accpar-tpu-{version}")[0] for version in ("v2", "v3"))
    assert (v2.chips, v2.cores_per_chip, v2.cores) == (4, 2, 8)
    assert (v2.peak_flops_per_s, v3.peak_flops_per_s) == (180e12, 420e12)
    assert (v2.network_bytes_per_s, v3.network_bytes_per_s) == (1e9, 2e9)
    for name in PAPERS[:2]:
        array = load_array(name)
        assert array.topology == Topology("tree", "boards", factor=2.0)
        assert array.group.arithmetic == Arithmetic(2.0, fused=False)
    mixed = load_array("accpar-mixed").group
    assert (mixed.size, mixed.cores) == (256, 2048)
    assert [half.kinds[0][0].name for half in mixed.halves()] == ["accpar-tpu-v2", "accpar-tpu-v3"]


def test_unlike_nodes_have_their_own_links_and_ports() -> None:
    """NVLink 2, four of its links; T4 through the memory of their host; a quarter of a port."""
    array = load_array("mixed-v100-t4")
    assert [(device.name, count) for device, count in array.group.kinds] == [
        ("v100-16", 12),
        ("t4", 4),
    ]
    wires = Wires(array)
    pairs = {(0, 3): 100e9, (0, 4): 10e9 / 8 / 4, (12, 15): 3.2e9, (0, 12): 10e9 / 8 / 4}
    for (source, target), bytes_per_s in pairs.items():
        assert wires.bandwidth[list(route(wires, source, target))].min() == bytes_per_s
    newer = Wires(load_array("mixed-a100-h100"))
    assert newer.bandwidth[route(newer, 0, 7)[0]] == pytest.approx(0.785 * 300e9)
    assert newer.bandwidth[route(newer, 16, 23)[0]] == pytest.approx(0.812 * 450e9)
    assert newer.bandwidth[route(newer, 0, 8)[0]] == 25e9
    assert newer.bandwidth[route(newer, 16, 24)[0]] == 50e9


def test_own_links_are_as_fast_as_the_same_written_down() -> None:
    own = ["topology.levels.0.efficiency=0.5", "devices.0.links.latency=3 us"]
    written = ["topology.levels.0.bandwidth=50 GB/s", "topology.levels.0.latency=3 us"]
    one, other = (Wires(load_array("mixed-v100-t4", changes)) for changes in (own, written))
    first = slice(one.subnets[1].links.start, one.subnets[1].links.stop)
    assert one.bandwidth[first].tolist() == other.bandwidth[first].tolist()
    assert one.latency_s[first].tolist() == other.latency_s[first].tolist()


def test_own_links_may_have_no_latency_where_that_is_written() -> None:
    """What is not written is the device's."""
    own = ["topology.levels.0.efficiency=0.5", "devices.0.links.latency=3 us"]
    for more, least in (([], 3e-6), (["topology.levels.0.latency=0 s"], 0.0)):
        wires = Wires(load_array("mixed-v100-t4", [*own, *more]))
        first = slice(wires.subnets[1].links.start, wires.subnets[1].links.stop)
        assert wires.latency_s[first].max() == pytest.approx(least, abs=1e-15)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("topology.joins=boards", "topology.levels.0.bandwidth: is missing"),
        ("topology.levels.0.half_size=1 MB", "half_size is of a bandwidth"),
    ],
)
def test_own_links_that_cannot_be(change: str, fault: str) -> None:
    with pytest.raises(SpecError, match=fault):
        load_array("mixed-v100-t4", [change])
