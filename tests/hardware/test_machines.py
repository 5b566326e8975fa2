"""Machines of large models: their data sheets, nodes, tiers and tori."""

from __future__ import annotations

from itertools import product
from math import prod
from pathlib import Path

import pytest

from hardware import SpecError, Wires, catalog_names, load_array, load_device
from hardware.spec import catalog_rows
from hardware.topology import near_cubic

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


@pytest.mark.parametrize("name", GPUS)
def test_a_gpu_is_a_device_of_one_core(name: str) -> None:
    peak, memory, bandwidth, port = GPUS[name]
    device, _ = load_device(name)
    assert device.cores == 1
    assert device.peak_flops_per_s == peak * 1e12
    assert device.hbm_capacity_bytes == memory * 2**30
    assert device.hbm_bytes_per_s == bandwidth * 1e9
    assert device.network_bytes_per_s == port * 1e9 / 8


@pytest.mark.parametrize("name", TPUS)
def test_a_tpu_chip_has_the_links_that_are_documented(name: str) -> None:
    """Google gives the sum of all its links, each way: v5p 4800 Gbit/s on six of them."""
    peak, memory, bandwidth, links_gbit_per_s = TPUS[name]
    device, _ = load_device(name)
    assert device.peak_flops_per_s == peak * 1e12
    assert device.hbm_capacity_bytes == memory * 2**30
    assert device.hbm_bytes_per_s == bandwidth * 1e9
    assert device.links is not None
    gbit_per_s = 8e-9 * device.links.per_chip * device.links.bytes_per_s
    assert gbit_per_s == pytest.approx(links_gbit_per_s)


@pytest.mark.parametrize("name", [*GPUS, *TPUS, "mi300x", "b300", "gb300", "h100-pcie"])
def test_every_value_of_a_device_has_a_source(name: str) -> None:
    _, settings = load_device(name)
    assert [setting.key for setting in settings if setting.source.startswith("set in")] == []


@pytest.mark.parametrize("name", [*CLUSTERS, "dgx-a100", "dgx-h100", "hgx-b200"])
def test_every_value_of_a_cluster_has_a_source(name: str) -> None:
    unsourced = [s.key for s in load_array(name).settings if s.source.startswith("set in")]
    assert unsourced == []


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


def test_nodes_are_of_one_kind_of_device(tmp_path: Path) -> None:
    text = 'kind = "array"\nnodes = 2\n'
    for device in ("a100-80", "h100-sxm"):
        text += f'[[devices]]\ndevice = "{device}"\ncount = 8\n'
    (tmp_path / "two.toml").write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match=r"two\.toml: nodes: 2 nodes of unlike devices"):
        load_array(str(tmp_path / "two.toml"))


def test_no_nodes_are_no_array() -> None:
    with pytest.raises(SpecError, match="nodes: 0"):
        load_array("h100-cluster", ["nodes=0"])
