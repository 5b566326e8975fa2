"""Devices, groups and arrays as values: sums over what they are made of."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Arithmetic, Array, Device, Group, SpecError, load_array
from hardware.array import Unit, cores_in
from tests.wiring import device

UNITS: tuple[Unit, ...] = ("board", "chip", "core")


@st.composite
def groups(draw: st.DrawFn) -> Group:
    """One to three kinds, in boards, chips or cores; some of it may be halved to cores."""
    kinds = tuple(
        (
            replace(
                device(chips=draw(st.integers(1, 4)), cores=draw(st.integers(1, 3)), name=name),
                chip_peak_flops_per_s=draw(st.integers(1, 5)) * 6e12,
            ),
            draw(st.integers(1, 6)),
        )
        for name in "abc"[: draw(st.integers(1, 3))]
    )
    place = draw(st.integers(0, 2))
    return Group(kinds, UNITS[place], UNITS[draw(st.integers(place, 2))])


def pieces(board: Device, unit: Unit) -> list[tuple[str, float]]:
    """The cores of one unit, one by one, with their peaks."""
    chips = board.chips if unit == "board" else 1
    cores = board.cores_per_chip if unit != "core" else 1
    peak = board.chip_peak_flops_per_s / board.cores_per_chip
    return [(board.name, peak) for _ in range(chips * cores)]


@given(groups())
def test_a_group_counts_what_it_is_made_of(group: Group) -> None:
    cores = [core for board, count in group.kinds for core in pieces(board, group.unit) * count]
    assert group.cores == len(cores)
    assert group.units == sum(count for _, count in group.kinds)
    assert group.peak_flops_per_s == pytest.approx(sum(peak for _, peak in cores))
    wanted = sum(
        len(pieces(board, group.unit)) * count / len(pieces(board, group.leaf))
        for board, count in group.kinds
    )
    assert group.size == wanted


@given(groups())
def test_halves_lose_nothing_and_differ_by_one_at_most(group: Group) -> None:
    if group.size == 1:
        with pytest.raises(ValueError, match="a single accelerator cannot be halved"):
            group.halves()
        return
    first, second = group.halves()
    assert first.size + second.size == group.size
    assert first.cores + second.cores == group.cores
    assert first.peak_flops_per_s + second.peak_flops_per_s == pytest.approx(group.peak_flops_per_s)
    assert {first.leaf, second.leaf} == {group.leaf}
    if len(group.kinds) == 1:
        assert first.unit == second.unit
        assert 0 <= first.units - second.units <= 1
    else:
        assert first.kinds + second.kinds == group.kinds
        assert 0 <= len(first.kinds) - len(second.kinds) <= 1


@given(groups())
def test_the_bisection_ends_after_the_logarithm_of_the_largest_part(group: Group) -> None:
    """Halving n alike units takes ceil(log2 n) levels, kinds and then units within."""

    def levels(part: Group) -> int:
        return 0 if part.size == 1 else 1 + max(levels(half) for half in part.halves())

    def ceiling(count: int) -> int:
        return (count - 1).bit_length()

    def most(board: Device, count: int) -> int:
        passed = UNITS[UNITS.index(group.unit) : UNITS.index(group.leaf)]
        inside = {"board": board.chips, "chip": board.cores_per_chip}
        return ceiling(count) + sum(ceiling(inside[unit]) for unit in passed)

    below = max(most(board, count) for board, count in group.kinds)
    assert levels(group) <= ceiling(len(group.kinds)) + below


def test_a_board_has_its_chips_cores_and_peak() -> None:
    board = device(chips=4, cores=2)
    assert (board.cores, board.peak_flops_per_s) == (8, 4e12)
    assert [cores_in(board, unit) for unit in UNITS] == [8, 2, 1]


def test_a_description_is_not_what_a_device_is() -> None:
    board = device()
    assert replace(board, description="mine") == board
    assert hash(replace(board, description="mine")) == hash(board)
    assert replace(board, name="e") != board


def test_an_array_has_one_number_format() -> None:
    wide = replace(device(name="wide"), arithmetic=Arithmetic.of(4.0))
    with pytest.raises(SpecError, match=r"array 'mixed': devices\.\*\.arithmetic: one array has"):
        Array("mixed", "", Group(((device(), 1), (wide, 1))))
    assert Array("one", "", Group(((wide, 3),))).group.arithmetic == Arithmetic.of(4.0)


def test_values_are_frozen_and_carry_nothing_that_is_not_a_value() -> None:
    group = Group(((device(), 2),))
    with pytest.raises(AttributeError):
        group.leaf = "core"  # type: ignore[misc]
    assert set(Group.__slots__) == {"kinds", "unit", "leaf"}
    assert eval(repr(group), {"Group": Group, **vars(__import__("hardware"))}) == group  # noqa: S307


def test_every_device_is_changed_and_nothing_else() -> None:
    array = load_array("accpar-mixed")
    twice = array.with_devices(lambda device: replace(device, hbm_bytes_per_s=1.0))
    assert [device.hbm_bytes_per_s for device, _ in twice.group.kinds] == [1.0, 1.0]
    assert [count for _, count in twice.group.kinds] == [count for _, count in array.group.kinds]
    assert (twice.name, twice.topology) == (array.name, array.topology)
