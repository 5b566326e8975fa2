from pathlib import Path

import pytest

from experiments.studies.comparison import scaled
from hardware import Array, Roofline, SpecError, Topology, load_array, load_device
from tests.hardware.conftest import Write
from tests.hardware.specs import POD
from tests.strategies import port_bytes_per_s

PLAIN = """
kind = "device"
chips = 1
chip.cores = 1
chip.peak = "1 TFLOP/s"
hbm.capacity = "1 GiB"
hbm.bandwidth = "1 GB/s"
network.bandwidth = "1 Gbit/s"
"""


def test_a_device_without_a_roofline_table_has_the_defaults(write: Write) -> None:
    device, settings = load_device(write(PLAIN))
    assert device.roofline == Roofline(1.0, 0.75, 2e-6, tile=False, pad_matrix_unit=0)
    assert not [s for s in settings if s.key.startswith("roofline")]


def test_a_roofline_table(write: Write) -> None:
    text = PLAIN + '[roofline]\nmemory_efficiency = 0.5\noverhead = "0 s"\ntile = true\n'
    device, _ = load_device(write(text), ["roofline.pad_matrix_unit=64"])
    assert device.roofline == Roofline(1.0, 0.5, 0.0, tile=True, pad_matrix_unit=64)


def test_values_change_from_the_command_line() -> None:
    array = load_array(
        "accpar-mixed",
        [
            "devices.0.count=64",
            "devices.1.device=tpu-v3",
            'devices.0.chip.peak="50 TFLOP/s"',
            "network.bandwidth=100 Gbit/s",
        ],
    )
    (first, n), (second, m) = array.group.kinds
    assert (n, m) == (64, 128)
    assert first.chip_peak_flops_per_s == 50e12
    assert second.name == "tpu-v3"
    assert first.network_bytes_per_s == second.network_bytes_per_s == 12.5e9
    sources = {s.key: s.source for s in array.settings}
    assert sources["devices.0.chip.peak"] == "command line"
    assert sources["devices.1.chip.peak"].startswith("Google")


def test_an_entrys_own_value_beats_the_arrays() -> None:
    array = load_array(
        "accpar-mixed",
        ["network.bandwidth=8 Gbit/s", "devices.1.network.bandwidth=80 Gbit/s"],
    )
    assert [d.network_bytes_per_s for d, _ in array.group.kinds] == [1e9, 1e10]


def test_the_command_line_beats_every_file(write: Write) -> None:
    path = write(POD + 'network.bandwidth = "1 Gbit/s"\n')
    assert port_bytes_per_s(load_array(path).group) == 1.25e8
    assert port_bytes_per_s(load_array(path, ["network.bandwidth=8 Gbit/s"]).group) == 1e9


def test_users_files_extend_the_catalog_and_each_other(write: Write) -> None:
    write(
        'kind = "device"\nextends = "accpar-tpu-v3"\ndescription = "mine"\n'
        'network.bandwidth = "80 Gbit/s"\n[sources]\n"network.bandwidth" = "a wish"\n',
        "fast.toml",
    )
    write('kind = "device"\nextends = "fast.toml"\nchip.peak = "200 TFLOP/s"\n', "faster.toml")
    entry = '[[devices]]\ndevice = "faster.toml"\ncount = 3\n'
    array = load_array(write(f'kind = "array"\nextends = "accpar-mixed"\n{entry}', "pod.toml"))
    ((device, count),) = array.group.kinds
    assert (array.name, device.name, count) == ("pod", "faster", 3)
    assert device.network_bytes_per_s == 1e10
    assert device.chip_peak_flops_per_s == 200e12
    sources = {s.key: s.source for s in array.settings}
    assert sources["devices.0.network.bandwidth"] == "a wish"
    assert sources["devices.0.chip.peak"].startswith("set in ")


def test_a_file_may_extend_the_catalogs_spec_of_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tpu-v3.toml").write_text(
        'kind = "device"\nextends = "tpu-v3"\nchip.peak = "105 TFLOP/s"\n'
    )
    monkeypatch.chdir(tmp_path)
    device, _ = load_device("tpu-v3.toml")
    assert (device.name, device.chip_peak_flops_per_s) == ("tpu-v3", 105e12)


def test_a_byte_order_mark_is_no_fault(write: Write) -> None:
    assert load_device(write('\ufeffkind = "device"\nextends = "tpu-v3"\n'))[0].cores == 8


def test_inline_tables_on_the_command_line() -> None:
    array = load_array("accpar-mixed", ['network={bandwidth="100 Gbit/s"}'])
    assert port_bytes_per_s(array.group) == 12.5e9
    array = load_array("accpar-mixed", ["devices.0.chip={cores=3}"])
    assert array.group.kinds[0][0].cores_per_chip == 3


def test_neighbouring_entries_of_one_device_are_one_kind(write: Write) -> None:
    twice = load_array(write(POD + '[[devices]]\ndevice = "tpu-v2"\ncount = 2\n'))
    assert [n for _, n in twice.group.kinds] == [6]


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


def test_a_shape_written_anew_replaces_the_whole_old_one(write: Write) -> None:
    flat = write(POD + '[topology]\nkind = "torus"\nshape = [2, 2, 1]\n', "flat.toml")
    long = write('kind = "array"\nextends = "flat.toml"\n[topology]\nshape = [4, 1]\n')
    assert load_array(long).topology.shape == (4, 1)
    array = load_array(flat, ["topology.shape=[4]"])
    assert array.topology.shape == (4,)
    assert {s.key: s.value for s in array.settings}["topology.shape"] == "[4]"


@pytest.mark.parametrize("none", ["reduces=0", "half_size=0 B"])
def test_the_default_of_none_may_be_written(none: str) -> None:
    usual = load_array("h100-cluster")
    array = load_array("h100-cluster", [f"topology.levels.1.{none}"])
    assert array.topology == usual.topology
    with pytest.raises(SpecError, match="outside 1"):
        load_array("h100-cluster", ["devices.0.hbm.capacity=0 B"])


@pytest.mark.parametrize(
    ("changes", "model"),
    [
        ((), "published"),
        (("devices.0.count=4",), "published"),
        (("topology.kind=ring",), "deployed"),
        (("topology.kind=tree",), "deployed"),
        (("topology.factor=2",), "deployed"),
        (("topology.latency=1 us",), "deployed"),
        (("topology.kind=bus",), "published"),
        (("topology.kind=ring", "execution=published"), "published"),
        (("execution=deployed",), "deployed"),
    ],
)
def test_other_wires_are_for_the_model_that_has_wires(
    changes: tuple[str, ...], model: str, write: Write
) -> None:
    """Whether they are changed on the command line or in a file that extends the array's."""
    assert load_array("accpar-mixed", changes).model == model
    lines = ['kind = "array"', 'extends = "accpar-mixed"']
    for change in changes:
        key, _, value = change.partition("=")
        lines.append(f"{key} = {value}" if value.isdigit() else f'{key} = "{value}"')
    if any(change.startswith("devices") for change in changes):
        lines = lines[:2]  # entries are lists in files
    assert load_array(write("\n".join(lines))).model == model


def test_an_array_made_in_python_goes_by_its_wires() -> None:
    group = load_array("ring-8").group
    assert Array("mine", "", group).model == "published"
    assert Array("mine", "", group, topology=Topology("ring")).model == "deployed"
    assert Array("mine", "", group, topology=Topology("ring"), execution="published").model == (
        "published"
    )


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ((), "accpar-mixed"),
        (("devices.0.count=16",), "accpar-mixed, devices.0.count=16"),
        (("devices.0.count = 16",), "accpar-mixed, devices.0.count=16"),
        (
            ('network.bandwidth="1 Gbit/s"', "devices.1.count=8"),
            "accpar-mixed, network.bandwidth=1 Gbit/s, devices.1.count=8",
        ),
        (("devices.0.roofline.tile=true",), "accpar-mixed, devices.0.roofline.tile=true"),
        (("devices.0.count=16", "devices.0.count=4"), "accpar-mixed, devices.0.count=4"),
        (("topology={kind = 'ring'}",), "accpar-mixed, topology.kind=ring"),
    ],
)
def test_an_arrays_name_tells_its_changes(changes: tuple[str, ...], name: str) -> None:
    array = load_array("accpar-mixed", changes)
    assert array.name == name
    assert array.base == "accpar-mixed"
    assert bool(array.description) == (not changes)


def test_a_devices_too() -> None:
    device, settings = load_device("tpu-v3", ["hbm.bandwidth=2 TB/s"])
    assert (device.name, device.description) == ("tpu-v3, hbm.bandwidth=2 TB/s", "")
    assert "2 TB/s" in {setting.value for setting in settings}
    assert load_device("tpu-v3")[0].description


def test_what_extends_another_spec_has_its_own_description_or_none(write: Write) -> None:
    spec = 'kind = "array"\nextends = "accpar-homogeneous"\n[network]\nbandwidth = "1 Gbit/s"\n'
    array = load_array(write(spec))
    assert (array.name, array.description) == ("mine", "")
    slow = write(spec.replace("[network]", 'description = "slow"\n[network]'))
    assert load_array(slow).description == "slow"


def test_another_size_is_named() -> None:
    array = load_array("accpar-mixed", ["network.bandwidth=1 Gbit/s", "devices.0.count=128"])
    small = scaled(array, 2)
    assert small.name == "accpar-mixed, network.bandwidth=1 Gbit/s, 4 accelerators"
    assert small.base == "accpar-mixed"
    assert {s.key for s in small.settings if "count" in s.key} == set()
