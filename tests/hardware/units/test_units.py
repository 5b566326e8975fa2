"""Devices described by their units: specs, their faults, area and power by hand."""

from pathlib import Path

import pytest

from hardware import MatrixUnit, SpecError, Units, VectorUnit, load_array, load_device
from hardware.units import AREA, POWER, Area, Power
from hardware.watched import unread, watched

TEXT = """
kind = "device"
chips = 2
[chip]
cores = 3
[hbm]
capacity = "16 GiB"
bandwidth = "700 GB/s"
[network]
bandwidth = "100 Gbit/s"
[units]
clock = "1 GHz"
buffer = "8 MiB"
[[units.matrix]]
count = 2
width = 64
depth = 32
[[units.matrix]]
width = 16
depth = 16
dataflow = "output_stationary"
[[units.vector]]
count = 4
width = 128
"""


def written(folder: Path, text: str = TEXT) -> str:
    path = folder / "device.toml"
    path.write_text(text)
    return str(path)


def test_a_device_has_the_peak_of_its_units(tmp_path: Path) -> None:
    device, _ = load_device(written(tmp_path))
    assert device.units == Units(
        1e9,
        (MatrixUnit(64, 32, 2), MatrixUnit(16, 16, 1, "output_stationary")),
        (VectorUnit(128, 4),),
        8.0 * 2**20,
    )
    each = 2 * 1e9 * (2 * 64 * 32 + 16 * 16)
    assert device.units.flops_per_s == each
    assert device.peak_flops_per_s == 6 * each
    assert device.units.lanes == 512


def test_a_device_needs_a_peak_or_units(tmp_path: Path) -> None:
    text = TEXT.partition("[units]")[0]
    with pytest.raises(SpecError, match=r"device\.toml: chip\.peak: is missing; .* \[units\]"):
        load_device(written(tmp_path, text))
    device, _ = load_device(written(tmp_path, text), ['chip.peak="9 TFLOP/s"'])
    assert device.units is None
    assert device.chip_peak_flops_per_s == 9e12


def test_what_of_the_units_was_read_is_noted() -> None:
    array = load_array("tpu-v2-8", ["devices.0.device=tpu-v2-units"])
    seen: set[str] = set()
    device = watched(array, seen).group.kinds[0][0]
    assert device.units is not None
    before = unread(array, seen)
    assert "devices.0.units.clock" in before
    assert device.units.clock_hz == 700e6
    assert device.units.matrix[0].width == 128
    left = unread(array, seen)
    assert "devices.0.units.clock" not in left
    assert "devices.0.units.matrix.0.width" not in left
    assert {"devices.0.units.vector.0.width", "devices.0.units.buffer"} <= set(left)


def test_a_peak_beside_units_is_not_read() -> None:
    array = load_array("tpu-v2-8", ["devices.0.device=tpu-v2-units"])
    seen: set[str] = set()
    assert watched(array, seen).group.kinds[0][0].chip_peak_flops_per_s == 2 * 2 * 128**2 * 700e6
    assert "devices.0.chip.peak" in unread(array, seen)
    assert "devices.0.units.clock" not in unread(array, seen)


def test_area_by_hand() -> None:
    area = Area(2.0, 3.0, 5.0, 7.0, 0.5, 11.0)
    units = Units(1e9, (MatrixUnit(4, 8, 2), MatrixUnit(2, 2)), (VectorUnit(16, 3),), 100.0)
    expected = 2 * (32 * 2 + 3) + (4 * 2 + 3) + 3 * (16 * 5 + 7) + 50 + 11
    assert area.um2(units) == expected
    assert area.mm2(units) == pytest.approx(expected * 1e-6)


def test_the_docstrings_area() -> None:
    units = Units(1e9, (MatrixUnit(128, 128, 2),), (VectorUnit(128, 2),), 16.0 * 2**20)
    assert AREA.mm2(units) == pytest.approx(48.8, abs=0.05)


def test_power_by_hand() -> None:
    """Per cycle: 64 multiply-adds, 2 x (8 + 4) edges, 48 lanes; 2 B each and 3 a lane."""
    units = Units(1e9, (MatrixUnit(4, 8, 2),), (VectorUnit(16, 3),), 100.0)
    power = Power(1e-12, 2e-12, 3e-12, 4e-12, 0.5)
    cycle = 64 * 1e-12 + 48 * 2e-12 + 2 * (24 + 144) * 3e-12
    still = 0.5 * AREA.mm2(units)
    assert power.watts(units, 1e9) == pytest.approx(cycle * 1e9 + 4e-3 + still)
    assert POWER.watts(units, 2e9) - POWER.watts(units, 1e9) == pytest.approx(31.2e-3)
