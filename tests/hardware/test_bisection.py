"""What halves can send each other: the papers' links, a bus's share, and wires."""

import gc
import itertools
import weakref
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import (
    Array,
    Bisection,
    Device,
    Group,
    Half,
    Section,
    SpecError,
    Topology,
    Wires,
    bisection_of,
    by_core,
    load_array,
    wires_of,
)
from hardware.topology import Joins
from tests.strategies import arrays
from tests.wiring import KINDS, device, ranges


def splits(bisection: Bisection, group: Group) -> Iterator[tuple[Group, Half, Half]]:
    """Every split below a group, with its halves."""
    for found, _, first, second in placed(bisection.section(group)):
        yield found, first, second


def placed(section: Section, start: int = 0) -> Iterator[tuple[Group, int, Half, Half]]:
    """Every split below a section, with the number of its first leaf."""
    if section.halves:
        first, second = section.halves
        yield section.group, start, first, second
        yield from placed(section.below[0], start)
        yield from placed(section.below[1], start + first.group.size)


@given(arrays(most=9))
def test_published_a_half_has_one_accelerators_link_the_slowest_kinds(array: Array) -> None:
    bisection = bisection_of(array)
    assert bisection.wires is None
    for group, first, second in splits(bisection, array.group):
        assert (first.group, second.group) == group.halves()
        for half in (first, second):
            ports = [d.network_bytes_per_s for d, n in half.group.kinds for _ in range(n)]
            assert half.link_bytes_per_s == min(ports)


@pytest.mark.parametrize("count", [2, 8, 64])
def test_on_a_bus_all_streams_of_a_level_share_the_medium(count: int) -> None:
    """At level k there are 2^k splits, and each sends both ways at once."""
    array = load_array("hypar-16", [f"devices.0.count={count}"])
    bisection, group, streams = bisection_of(array), array.group, 2
    port = group.kinds[0][0].network_bytes_per_s
    while group.size > 1:
        first, second = bisection.halves(group)
        assert first == second
        assert first.link_bytes_per_s * streams == pytest.approx(port, rel=1e-15)
        group, streams = first.group, 2 * streams


@settings(deadline=None)
@given(
    st.sampled_from(KINDS),
    st.sampled_from(["boards", "chips"]),
    st.integers(1, 9),
    st.integers(1, 3),
    st.integers(1, 2),
    st.booleans(),
)
def test_on_wires_a_half_has_what_the_wires_say(
    kind: str, joins: Joins, count: int, chips: int, cores: int, mixed: bool
) -> None:
    one, other = device(chips=chips, cores=cores), device(chips=2, network=3e9, name="e")
    kinds = ((one, count), (other, 2)) if mixed else ((one, count),)
    array = by_core(Array("any", "", Group(kinds), topology=Topology(kind, joins)))
    bisection = bisection_of(array)
    wires = Wires(array)
    for group, start, first, second in placed(bisection.section(array.group)):
        for half, side, sides in zip(
            (first, second),
            group.halves(),
            itertools.permutations(ranges(group, start)),
            strict=True,
        ):
            assert half == Half(side, wires.injection_bytes_per_s(*sides))


def test_a_split_has_the_width_of_its_own_place() -> None:
    """Of a mesh of 2 x 4 boards, where boards 3 and 4 are no neighbours:

    0 1 4 5        two and one:    0 1 | 2  one link      1 2 | 3  two links
    2 3 6 7                        2 3 | 4  none: both go by way of board 1
    """
    boards = Array("mesh", "", Group(((device(), 8),)), topology=Topology("mesh", "boards", (2, 4)))
    bisection = bisection_of(by_core(boards))
    three = Group(((device(), 3),), leaf="core")
    widths = [bisection.section(three, first).halves[0].link_bytes_per_s for first in range(6)]
    assert widths == [1e9, 2e9, 1e9, 1e9, 1e9, 2e9]


def test_alike_sections_are_one_object() -> None:
    """A torus of powers of two has one section of each size, however many places."""
    array = by_core(load_array("tpu-v3-pod", ["devices.0.count=16"]))
    section, sizes = bisection_of(array).section(array.group), []
    while section.halves:
        assert section.below[0] is section.below[1]
        section = section.below[0]
        sizes.append(section.group.size)
    assert sizes == [64, 32, 16, 8, 4, 2, 1]


def leaves(group: Group) -> list[tuple[Device, str]]:
    if group.size == 1:
        return [(group.kinds[0][0], group.unit)]
    return [leaf for half in group.halves() for leaf in leaves(half)]


@pytest.mark.parametrize("name", ["accpar-mixed", "tpu-v3-pod", "hypar-16", "ring-8"])
def test_an_array_by_core_ends_in_single_cores(name: str) -> None:
    array = load_array(name, ["devices.0.count=3"])
    cores = by_core(array)
    assert cores.group.kinds == array.group.kinds
    assert (cores.base, cores.topology, cores.settings) == (name, array.topology, array.settings)
    assert cores.group.size == cores.group.cores == array.group.cores
    found = leaves(cores.group)
    assert len(found) == array.group.cores
    wanted = [d for d, n in array.group.kinds for _ in range(n * d.cores)]
    assert [d for d, _ in found] == wanted
    assert {unit for d, unit in found if d.cores > 1} <= {"core", "chip"}


def test_wires_are_made_once_for_an_array_however_it_is_seen() -> None:
    array = load_array("tpu-v3-8")
    wires = wires_of(array)
    assert wires_of(by_core(array)) is wires
    assert wires_of(load_array("tpu-v3-8")) is wires
    assert wires_of(replace(array, description="mine", settings=())) is wires
    assert bisection_of(by_core(array)).wires is wires
    assert wires_of(load_array("tpu-v3-8", ["network.bandwidth=9 GB/s"])) is not wires


def test_a_sweep_keeps_the_wires_of_the_last_few_arrays_alone() -> None:
    made = [
        weakref.ref(wires_of(load_array("ring-8", [f"network.bandwidth={n} GB/s"])))
        for n in range(1, 20)
    ]
    gc.collect()
    alive = [ref() is not None for ref in made]
    assert not any(alive[:-3])
    assert alive[-1]


def test_wires_hold_no_settings_and_no_cores_group() -> None:
    """They are kept: what has nothing to do with them goes with the array."""
    wires = wires_of(by_core(load_array("ring-8")))
    assert wires.array.settings == ()
    assert wires.array.group == load_array("ring-8").group
    assert wires.array.name == "ring-8"


def test_a_topology_that_does_not_fit_is_refused_by_whoever_needs_wires() -> None:
    array = replace(load_array("ring-8"), topology=Topology("torus", shape=(3, 3)))
    assert bisection_of(array).wires is None
    for ask in (wires_of, lambda a: bisection_of(by_core(a))):
        with pytest.raises(SpecError, match=r"ring-8: topology.shape: \[3, 3\] is 9 nodes"):
            ask(array)


def described(section: Section) -> object:
    links = tuple(half.link_bytes_per_s for half in section.halves)
    return section.group, links, tuple(map(described, section.below))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *(("tpu-v3-pod", (f"devices.0.count={n}",)) for n in (4, 6, 8, 12, 16)),
        ("tpu-mixed", ("devices.0.count=4", "devices.1.count=8")),
        *(
            (
                "accpar-mixed",
                (f"topology.kind={kind}", f"devices.0.count={a}", f"devices.1.count={b}"),
            )
            for kind in ("torus", "mesh", "ring")
            for a, b in ((4, 4), (3, 5), (8, 8), (1, 7))
        ),
    ],
)
def test_what_is_a_half_moved_on_is_not_looked_at_again(
    name: str, changes: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    array = by_core(load_array(name, changes))
    short = bisection_of(array)
    found = described(short.section(array.group))
    monkeypatch.setattr(Bisection, "_moved", lambda *_: False)
    every = bisection_of(array)
    assert described(every.section(array.group)) == found
    assert len(every._alike) >= len(short._alike)


def test_what_is_cut_otherwise_is_planned_for_alike() -> None:
    """Of three nodes of 8 GPUs, 6 to 11 are on two nodes, and 0 to 5 on one: one object."""
    array = by_core(load_array("h100-cluster", ["nodes=3"]))
    top = bisection_of(array).section(array.group)
    assert top.below[0] is top.below[1]
    assert top.below[0].below[0] is top.below[0].below[1]


def test_a_half_moved_on_is_moved_by_an_even_number_of_places_among_links_alike() -> None:
    """Half way round a ring, messages from odd places go the other way round."""
    ring = wires_of(load_array("accpar-homogeneous", ["devices.0.count=8", "topology.kind=ring"]))
    each = ring.cores // 8
    places = [range(a * each, b * each) for a, b in ((0, 2), (2, 4), (4, 6), (0, 3), (3, 6))]
    assert ring.moved(places[0], places[1])
    assert ring.moved(places[0], places[2])
    assert not ring.moved(places[3], places[4])
    counts = ["devices.0.count=4", "devices.1.count=4", "topology.kind=ring"]
    mixed = wires_of(load_array("accpar-mixed", counts))
    assert not mixed.moved(places[0], places[1])
