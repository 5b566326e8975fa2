from pathlib import Path

import pytest

from hardware import SpecError, Topology, load_array, load_device
from hardware.topology import near_square

POD = 'kind = "array"\n[[devices]]\ndevice = "tpu-v2"\ncount = 4\n'


def test_without_a_topology_an_array_is_the_published_tree() -> None:
    for name in ("accpar-mixed", "accpar-homogeneous"):
        assert load_array(name).topology == Topology("tree", "boards", factor=2.0)


def test_topologies_of_the_catalog() -> None:
    assert load_array("tpu-v2-pod").topology == Topology("torus", "chips")
    assert load_array("tpu-v3-pod").topology.shape_of(1024) == (32, 32)
    assert load_array("accpar-mixed-switch").topology.kind == "switch"
    assert load_array("ring-8").topology == Topology("ring", two_way=False)
    ethernet = load_array("ethernet-100g")
    assert {d.network_bytes_per_s for d, _ in ethernet.group.kinds} == {12.5e9}
    assert ethernet.topology.kind == "switch"


def test_links_between_chips() -> None:
    v2, v3 = (load_device(name)[0].links for name in ("tpu-v2", "tpu-v3"))
    assert v2 is not None
    assert v3 is not None
    assert (v2.per_chip, v2.bytes_per_s, v2.latency_s) == (4, 62e9, 1.5e-6)
    assert (v3.per_chip, v3.bytes_per_s) == (4, 82e9)
    assert load_device("accpar-tpu-v2")[0].links is None


def test_everything_can_be_changed_from_the_command_line() -> None:
    changes = ["topology.kind=mesh", "topology.shape=[16, 8]", "topology.latency=500 ns"]
    array = load_array("accpar-homogeneous", [*changes, "topology.bandwidth=1 GB/s"])
    assert array.topology == Topology("mesh", shape=(16, 8), bytes_per_s=1e9, latency_s=5e-7)
    array = load_array("accpar-mixed", ["network.latency=2 us", "topology.factor=1.5"])
    assert {d.network_latency_s for d, _ in array.group.kinds} == {2e-6}
    assert array.topology.factor == 1.5
    array = load_array("tpu-v2-8", ["devices.0.links.latency=0 s"])
    links = array.group.kinds[0][0].links
    assert links is not None
    assert links.latency_s == 0


def test_a_shape_written_anew_replaces_the_whole_old_one(tmp_path: Path) -> None:
    (tmp_path / "flat.toml").write_text(POD + '[topology]\nkind = "torus"\nshape = [2, 2, 1]\n')
    (tmp_path / "long.toml").write_text(
        'kind = "array"\nextends = "flat.toml"\n[topology]\nshape = [4, 1]\n'
    )
    assert load_array(str(tmp_path / "long.toml")).topology.shape == (4, 1)
    array = load_array(str(tmp_path / "flat.toml"), ["topology.shape=[4]"])
    assert array.topology.shape == (4,)
    assert {s.key: s.value for s in array.settings}["topology.shape"] == "[4]"


@pytest.mark.parametrize(
    ("lines", "key", "words"),
    [
        ('kind = "taurus"', "topology.kind", "'torus'"),
        ('kind = "torus"\nshape = [3, 3]', "topology.shape", "[3, 3] is 9 nodes; there are 4"),
        ('kind = "torus"\nshape = [2, 2, 1, 1]', "topology.shape", "must have at most 3 items"),
        ('kind = "torus"\nshape = []', "topology.shape", "must have at least 1 item"),
        (
            'kind = "torus"\nshape = [0, 4]',
            "topology.shape.0",
            "0: must be a whole number from 1 to 131,072",
        ),
        ('kind = "torus"\nshape = "2x2"', "topology.shape", "must be a list"),
        ('kind = "ring"\nshape = [4]', "topology.shape", "only a torus or a mesh"),
        ('kind = "switch"\nfactor = 1', "topology.factor", "only a tree"),
        ("factor = 0", "topology.factor", "must be a number from 0.01 to 100"),
        ('kind = "torus"\ntwo_way = false', "topology.two_way", "only a ring"),
        ('kind = "torus"\njoins = "cores"', "topology.joins", "must be one of 'boards', 'chips'"),
        ('latency = "3 m"', "topology.latency", 'write it like "1.5 us"'),
        ('latency = "2000 s"', "topology.latency", "outside 0...1000 s"),
        ('bandwidth = "3 GB"', "topology.bandwidth", "not a unit of B/s"),
        ("links = 3", "topology.links", "did you mean joins?"),
        (
            'kind = "torus"\njoins = "chips"\nshape = [4, 2, 2]',
            "topology.kind",
            "a torus of 16 chips needs 4 links per chip",
        ),
        (
            'kind = "fully_connected"\njoins = "chips"',
            "topology.kind",
            "needs 15 links per chip; tpu-v2 has 3",
        ),
    ],
)
def test_faults_name_file_and_key(tmp_path: Path, lines: str, key: str, words: str) -> None:
    path = tmp_path / "pod.toml"
    path.write_text(POD + "links.per_chip = 3\n[topology]\n" + lines + "\n")
    with pytest.raises(SpecError) as caught:
        load_array(str(path))
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{path}: {key}: ")
    assert words in line


def test_chips_without_links_cannot_be_joined() -> None:
    with pytest.raises(SpecError, match=r"--set .*: accpar-tpu-v3 has no links between chips"):
        load_array("accpar-homogeneous", ["topology.joins=chips"])
    array = load_array("accpar-homogeneous", ["topology.joins=chips", "topology.bandwidth=1 GB/s"])
    assert array.topology.joins == "chips"


def test_too_many_nodes_are_not_fully_connected() -> None:
    change = ["topology.kind=fully_connected", "devices.0.count=4096"]
    with pytest.raises(SpecError, match="4096 boards; at most 2048"):
        load_array("accpar-homogeneous", change)


@pytest.mark.parametrize(
    ("count", "sides"), [(1, (1, 1)), (12, (4, 3)), (512, (32, 16)), (256, (16, 16)), (7, (7, 1))]
)
def test_near_square(count: int, sides: tuple[int, int]) -> None:
    assert near_square(count) == sides
