import pytest
from hypothesis import given

from hardware import Array, Device, Group, load_array
from tests.strategies import arrays, port_bytes_per_s


def leaves(group: Group) -> list[Device]:
    if group.size == 1:
        return [group.kinds[0][0]]
    return [device for half in group.halves() for device in leaves(half)]


@given(arrays(most=9))
def test_bisection_reaches_every_accelerator_once(array: Array) -> None:
    wanted = [device for device, count in array.group.kinds for _ in range(count)]
    assert leaves(array.group) == wanted


def test_kinds_part_first_then_counts() -> None:
    mixed = load_array("accpar-mixed").group
    first, second = mixed.halves()
    assert [d.name for d, _ in first.kinds] == ["accpar-tpu-v2"]
    assert [d.name for d, _ in second.kinds] == ["accpar-tpu-v3"]
    quarter, other = first.halves()
    assert quarter == other
    assert quarter.size == 64


def test_an_odd_accelerator_goes_to_the_first_half() -> None:
    group = load_array("accpar-homogeneous", ["devices.0.count=7"]).group
    assert [half.size for half in group.halves()] == [4, 3]


def test_a_single_accelerator_has_no_halves() -> None:
    with pytest.raises(ValueError, match="single"):
        load_array("accpar-homogeneous", ["devices.0.count=1"]).group.halves()


def test_sums_and_slowest_link() -> None:
    group = load_array("accpar-mixed").group
    assert group.size == 256
    assert group.cores == 2048
    assert group.peak_flops_per_s == 128 * (180e12 + 420e12)
    assert port_bytes_per_s(group) == 1e9
