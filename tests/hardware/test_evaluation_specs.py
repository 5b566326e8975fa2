"""HyPar's specs, and the tables they brought: arithmetic, energy, topology."""

import pytest

from hardware import Arithmetic, Array, Group, SpecError, load_array, load_device
from hardware.quantity import parse_quantity


def test_hypars_cube_and_array() -> None:
    array = load_array("hypar-16")
    ((cube, count),) = array.group.kinds
    assert (count, array.topology.kind) == (16, "bus")
    assert cube.arithmetic == Arithmetic.of(4.0, fused=True)
    assert cube.energy is not None
    assert cube.energy.mac_j == pytest.approx(4.6e-12)
    assert cube.energy.transfer_j_per_byte == pytest.approx(640e-12)
    assert cube.energy.hbm_j_per_byte == 0.0
    assert cube.peak_flops_per_s / cube.network_bytes_per_s == pytest.approx(335.2, rel=1e-3)


def test_other_arrays_are_trees_of_bfloat16() -> None:
    for name in ("accpar-mixed", "accpar-homogeneous"):
        array = load_array(name)
        assert array.topology.kind == "tree"
        assert array.group.arithmetic == Arithmetic.of(2.0, fused=False)


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("4.6 pJ", "J", 4.6e-12),
        ("1 nJ", "J", 1e-9),
        ("640 pJ/B", "J/B", 640e-12),
        ("80 pJ/bit", "J/B", 640e-12),
    ],
)
def test_energies(text: str, unit: str, value: float) -> None:
    assert parse_quantity(text, unit) == pytest.approx(value, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("4.6", "J"),
        ("4.6 pJ", "J/B"),
        ("0 pJ", "J"),
        ("2 J", "J"),
        ("8 mbit/s", "B/s"),
        ("5 pB", "B"),
    ],
)
def test_what_is_not_an_energy(text: str, unit: str) -> None:
    with pytest.raises(ValueError, match="write it like"):
        parse_quantity(text, unit)


def test_one_array_has_one_arithmetic() -> None:
    first, second = load_array("accpar-mixed").group.kinds
    cube, _ = load_device("hypar-hmc")
    with pytest.raises(SpecError, match="one number format"):
        Array("odd", "", Group((first, (cube, 2))))
    with pytest.raises(SpecError, match="one number format"):
        load_array("accpar-mixed", ["devices.0.arithmetic.element=4 B"])
    array = load_array("accpar-mixed", [f"devices.{i}.arithmetic.element=4 B" for i in (0, 1)])
    assert array.group.arithmetic.element_bytes == 4.0
    assert Array("fine", "", Group((first, second)))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("topology.kind=busy", "topology.kind: 'busy': must be one of 'tree', 'bus', "),
        ("topology.kin=bus", "unknown key; did you mean kind?"),
        ("devices.0.energy.mca=1 pJ", "unknown key; did you mean mac?"),
        ("devices.0.energy.mac=1 J/s", "not a unit of J"),
        ("devices.0.arithmetic.fused=yes", "must be true or false"),
    ],
)
def test_faults_name_the_key(change: str, words: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_array("hypar-16", [change])
    assert words in str(caught.value)
