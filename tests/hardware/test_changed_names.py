"""A changed array or device has a name that says so, and no description that is no longer true."""

from pathlib import Path

import pytest

from experiments.studies.comparison import scaled
from hardware import load_array, load_device


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


def test_what_extends_another_spec_has_its_own_description_or_none(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    spec = 'kind = "array"\nextends = "accpar-homogeneous"\n[network]\nbandwidth = "1 Gbit/s"\n'
    path.write_text(spec)
    assert (load_array(str(path)).name, load_array(str(path)).description) == ("mine", "")
    path.write_text(spec.replace("[network]", 'description = "slow"\n[network]'))
    assert load_array(str(path)).description == "slow"


def test_another_size_is_named() -> None:
    array = load_array("accpar-mixed", ["network.bandwidth=1 Gbit/s", "devices.0.count=128"])
    small = scaled(array, 2)
    assert small.name == "accpar-mixed, network.bandwidth=1 Gbit/s, 4 accelerators"
    assert small.base == "accpar-mixed"
    assert {s.key for s in small.settings if "count" in s.key} == set()
