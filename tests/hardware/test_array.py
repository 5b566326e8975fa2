"""Devices, groups and arrays as values: sums over what they are made of."""

import re
from collections.abc import Iterator
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Arithmetic, Array, Device, Group, SpecError, Topology, by_core, load_array
from hardware.array import Unit, cores_in
from hardware.device import Energy
from hardware.topology import Tier
from tests.hardware.specs import POD
from tests.strategies import arrays
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
    wide = replace(device(name="wide"), arithmetic=Arithmetic(4.0))
    with pytest.raises(SpecError, match=r"array 'mixed': devices\.\*\.arithmetic: one array has"):
        Array("mixed", "", Group(((device(), 1), (wide, 1))))
    assert Array("one", "", Group(((wide, 3),))).group.arithmetic == Arithmetic(4.0)


def changed(part: str, **values: Any) -> Array:
    """An array with other values in its devices, or in one of their parts."""

    def change(old: Device) -> Device:
        inner: Any = getattr(old, part, old)
        return replace(old, **{part: replace(inner, **values)}) if part else replace(old, **values)

    return load_array("tpu-v3-8").with_devices(change)


@pytest.mark.parametrize(
    ("part", "field", "value", "must"),
    [
        ("", "hbm_bytes_per_s", -1e12, "outside 1e-09...1e+30 B/s"),
        ("", "hbm_capacity_bytes", nan, "outside 1e-09...1e+30 B"),
        ("", "chip_peak_flops_per_s", 0, "outside 1e-09...1e+30 FLOP/s"),
        ("", "network_latency_s", -1e-6, "outside 0...1e+12 s"),
        ("", "chip_exponentials_per_s", -1, "outside 1e-09...1e+30 FLOP/s"),
        ("", "hbm_bytes_per_s", "8 GB/s", "must be a number"),
        ("", "chips", 0, "must be a whole number from 1 to 4,096"),
        ("", "cores_per_chip", 2.5, "must be a whole number from 1 to 4,096"),
        ("", "price", -1, "must be a number from 0 to 1e+06"),
        ("", "links", 3, "must be an instance of ChipLinks"),
        ("links", "bytes_per_s", -1, "outside 1e-09...1e+30 B/s"),
        ("links", "per_chip", 0, "must be a whole number from 1 to 4,096"),
        ("roofline", "overhead_s", -1e-6, "outside 0...1e+12 s"),
        ("roofline", "memory_efficiency", 2, "must be a number from 1e-09 to 1"),
        ("roofline", "slowest", nan, "must be a finite number"),
        ("arithmetic", "element_bytes", 17, "outside 1e-09...16 B"),
    ],
)
def test_values_made_in_python_have_the_bounds_of_a_spec(
    part: str, field: str, value: Any, must: str
) -> None:
    path = ".".join(filter(None, ("devices.0", part, field)))
    with pytest.raises(SpecError, match=re.escape(f"{path}: {value!r}: {must}")):
        changed(part, **{field: value})


def test_so_have_energies() -> None:
    with pytest.raises(SpecError, match=r"devices.0.energy.hbm_j_per_byte: -1: must be greater"):
        changed("", energy=Energy(1e-12, -1, 1e-12))


@pytest.mark.parametrize("count", [0, -1, 1.5, None, 10**12])
def test_an_array_has_devices(count: Any) -> None:
    with pytest.raises(SpecError, match=r"'few': devices.0.count: .*: must be a whole number"):
        Array("few", "", Group(((device(), count),)))
    with pytest.raises(SpecError, match=r"'none': group.kinds: is empty"):
        Array("none", "", Group(()))


def test_links_of_a_topology_made_in_python_are_checked() -> None:
    array = load_array("h100-cluster")
    tier = replace(array.topology.levels[0], bytes_per_s=-1.0)
    for change, path in (({"levels": (tier,)}, "levels.0.bytes_per_s"), ({"factor": 0}, "factor")):
        with pytest.raises(SpecError, match=rf"topology.{path}: -?\d"):
            replace(array, topology=replace(array.topology, **change))


@pytest.mark.parametrize(
    ("topology", "path"),
    [
        (Topology("switch", joins="foo"), "joins: 'foo': must be one of 'boards', 'chips'"),  # type: ignore[arg-type]
        (Topology("torus", shape=(-2, -4)), "shape.0: -2: must be a whole number from 1 to"),
        (Topology("tiers", levels=(Tier("foo", 8),)), "levels.0.kind: 'foo': must be one of"),  # type: ignore[arg-type]
        (Topology("tiers", levels=(Tier("switch", -8),)), "levels.0.members: -8: must be a whole"),
        (Topology("tiers", levels=(Tier("torus", 8, dimensions=0),)), "levels.0.dimensions: 0"),
        (Topology("tiers", levels=(Tier("ring", 8, half_bytes=-1),)), "levels.0.half_bytes: -1"),
    ],
)
def test_so_are_its_words_and_numbers(topology: Topology, path: str) -> None:
    with pytest.raises(SpecError, match=rf"^array 'few': topology.{path}"):
        Array("few", "", Group(((device(), 8),)), topology=topology)


def test_a_stack_does_not_make_wires(tmp_path: Path) -> None:
    """The papers' array is for the papers' model, whatever share of its links a stack gives."""
    path = tmp_path / "ours.toml"
    path.write_text('kind = "stack"\n[habits]\ncollectives = 0.5\n')
    (tmp_path / "array.toml").write_text(POD)
    array = load_array(str(tmp_path / "array.toml"), [f"stack={path}"])
    assert (array.model, array.topology.share) == ("published", 0.5)


def test_what_is_made_of_a_specs_values_may_be_out_of_their_range() -> None:
    """As where a device is made twice as fast, or a link reaches half of its bandwidth."""
    keys = ("hbm.bandwidth=1e21 B/s", "network.bandwidth=1 B/s", "network.efficiency=0.5")
    array = load_array("tpu-v3-8", [f"devices.0.{key}" for key in keys])
    doubled = array.with_devices(lambda old: replace(old, hbm_bytes_per_s=2e21))
    assert doubled.group.kinds[0][0].network_bytes_per_s == 0.5


def test_numbers_of_numpy_are_numbers() -> None:
    array = changed("", chips=np.int64(2), hbm_bytes_per_s=np.float64(1e12))
    assert array.group.kinds[0][0].cores == 4


@pytest.mark.parametrize(
    ("count", "together", "halves"),
    [
        (24, (8,), {24: (16, 8), 16: (8, 8), 8: (4, 4)}),
        (12, (6, 2), {12: (6, 6), 6: (4, 2), 4: (2, 2), 2: (1, 1)}),
        (40, (8,), {40: (24, 16), 24: (16, 8)}),
        (10, (8,), {10: (5, 5), 5: (3, 2)}),  # which are no eights
        (40, (8, 1), {40: (32, 8), 32: (16, 16)}),
        (28, (4, 1), {28: (24, 4), 24: (12, 12), 12: (8, 4)}),
        (14, (2, 1), {14: (12, 2), 12: (6, 6), 6: (4, 2), 4: (2, 2), 2: (1, 1)}),
    ],
)
def test_halves_part_none_of_those_that_are_together(
    count: int, together: tuple[int, ...], halves: dict[int, tuple[int, int]]
) -> None:
    for cores in (1, 2):
        board = device(chips=1, cores=cores)
        group = Group(((board, count // cores),), "board", "core", together)
        found, left = dict[int, tuple[int, int]](), [group]
        while left:
            one = left.pop()
            if one.size > 1:
                first, second = one.halves()
                left += [first, second]
                found[one.size] = first.size, second.size
        if cores == 1 or together != (8,) or count != 10:
            assert found | halves == found


def test_values_are_frozen_and_carry_nothing_that_is_not_a_value() -> None:
    group = Group(((device(), 2),))
    with pytest.raises(AttributeError):
        group.leaf = "core"  # type: ignore[misc]
    assert set(Group.__slots__) == {"kinds", "unit", "leaf", "together"}
    assert eval(repr(group), {"Group": Group, **vars(__import__("hardware"))}) == group  # noqa: S307


def test_every_device_is_changed_and_nothing_else() -> None:
    array = load_array("accpar-mixed")
    twice = array.with_devices(lambda device: replace(device, hbm_bytes_per_s=1.0))
    assert [device.hbm_bytes_per_s for device, _ in twice.group.kinds] == [1.0, 1.0]
    assert [count for _, count in twice.group.kinds] == [count for _, count in array.group.kinds]
    assert (twice.name, twice.topology) == (array.name, array.topology)


def leaves(group: Group) -> Iterator[Device]:
    """Every leaf's device, by halving down to single ones."""
    if group.size == 1:
        yield group.kinds[0][0]
        return
    for half in group.halves():
        yield from leaves(half)


@settings(max_examples=40, deadline=None)
@given(arrays(5, 3), st.booleans(), st.data())
def test_a_part_has_the_leaves_that_are_there(
    array: Array, cores: bool, data: st.DataObject
) -> None:
    whole = by_core(array) if cores else array
    each = [d.cores if cores else 1 for d, _ in whole.group.kinds]
    every = [
        d for (d, many), n in zip(array.group.kinds, each, strict=True) for _ in range(many * n)
    ]
    size = whole.group.size
    assert size == len(every)
    first = data.draw(st.integers(0, size - 1))
    count = data.draw(st.integers(1, size - first))
    part = whole.group.taken(first, count)
    assert part.size == count
    assert list(leaves(part)) == every[first : first + count]
    peaks = [d.peak_flops_per_s / (d.cores if cores else 1) for d in every[first:][:count]]
    assert part.peak_flops_per_s == pytest.approx(sum(peaks))
    own = whole.part(first, count)
    assert (own.group, own.first, own.whole) == (part, first, whole)
    inner = data.draw(st.integers(0, count - 1))
    again = own.part(inner, count - inner)
    assert (again.first, again.whole) == (first + inner, whole)
    assert list(leaves(again.group)) == every[first + inner : first + count]


@settings(max_examples=25, deadline=None)
@given(arrays(4, 2))
def test_the_whole_of_it_is_itself(array: Array) -> None:
    assert array.group.taken(0, array.group.size) == array.group


@pytest.mark.parametrize(("first", "count"), [(-1, 2), (0, 0), (0, 9), (8, 1), (5, -1)])
def test_no_more_than_there_are(first: int, count: int) -> None:
    array = load_array("ring-8")
    for taken in (array.group.taken, array.part):
        with pytest.raises(ValueError, match=f"no {count} accelerators from number {first} on: 8"):
            taken(first, count)


def test_units_are_as_large_as_they_may_be() -> None:
    """Two boards of four cores: cores 2 to 5 are single, 4 to 7 are a board, 2 and 3 a chip."""
    device = Device("board", 2, 2, 1e12, 1e9, 1e9, 1e9)
    group = by_core(Array("two", "", Group(((device, 2),)))).group
    found = [(group.taken(*ends).kinds[0][1], group.taken(*ends).unit) for ends in _ENDS]
    assert found == [(4, "core"), (1, "board"), (1, "chip"), (2, "chip"), (1, "core")]


_ENDS = [(1, 4), (4, 4), (2, 2), (2, 4), (3, 1)]
