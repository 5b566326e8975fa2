import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardware import Array, Group, Topology, Wires, load_array
from hardware.interconnect.torus import places
from hardware.topology import Joins
from tests.effort import calls
from tests.routes import route
from tests.wiring import KINDS, device, nodes, ranges, wires


@settings(deadline=None)
@given(wires(), st.data())
def test_loads_are_what_routes_cross(w: Wires, data: st.DataObject) -> None:
    cores = st.integers(0, w.cores - 1)
    pairs = data.draw(st.lists(st.tuples(cores, cores, st.integers(1, 5)), max_size=12))
    wanted = np.zeros(len(w.bandwidth))
    for a, b, flows in pairs:
        for link in route(w, a, b):
            wanted[link] += flows
        assert w.message_latency_s(a, b) == pytest.approx(sum(w.latency_s[list(route(w, a, b))]))
    sources, targets, many = (np.array([pair[i] for pair in pairs]) for i in range(3))
    assert (w.loads(sources, targets, many) == wanted).all()


@settings(deadline=None)
@given(wires())
def test_every_link_has_a_name_of_its_own_and_a_bandwidth(w: Wires) -> None:
    assert len(set(w.names)) == len(w.names) == len(w.bandwidth) == len(w.latency_s)
    assert (w.bandwidth > 0).all()


@settings(deadline=None)
@given(wires())
def test_different_cores_are_joined_and_a_core_needs_no_wire(w: Wires) -> None:
    for a in range(min(w.cores, 6)):
        assert route(w, a, a) == ()
        for b in range(w.cores):
            assert route(w, a, b) or a == b


@pytest.mark.parametrize("shape", [(16, 16), (32, 16), (8, 8, 4), (64,), (32, 128)])
def test_halves_of_the_numbers_are_halves_of_the_grid(shape: tuple[int, ...]) -> None:
    at = places(shape)
    assert len(np.unique(at, axis=0)) == len(at) == np.prod(shape)
    size = len(at)
    while size >= 2:
        for first in range(0, len(at), size):
            box = at[first : first + size]
            sides = np.ptp(box, axis=0) + 1
            assert np.prod(sides) == size
            assert sides.max() <= 2 * sides.min() or len(shape) == 1 or size >= 64
        size //= 2


def test_a_boards_chips_are_a_square_of_the_torus() -> None:
    w = Wires(load_array("tpu-v2-pod"))
    at = places((16, 16))
    for board in range(64):
        chips = np.unique(w.chip[w.board == board])
        assert np.ptp(at[chips], axis=0).tolist() == [1, 1]


def test_cores_of_a_chip_talk_through_its_memory() -> None:
    w = Wires(load_array("tpu-v2-pod"))
    assert [w.names[link] for link in route(w, 2, 3)] == ["hbm chip1", "hbm chip1"]
    assert w.loads(2, 3).sum() == 2
    assert w.message_latency_s(2, 3) == 0
    assert [w.names[link] for link in route(w, 0, 2)] == [w.names[link] for link in route(w, 1, 3)]


def test_kinds_are_joined_through_their_boards_ports() -> None:
    w = Wires(load_array("tpu-mixed"))
    assert [w.names[link] for link in route(w, 0, 2047)] == ["board0 up", "board255 down"]
    assert w.bandwidth[list(route(w, 0, 2047))].tolist() == [1e9, 2e9]
    assert all(w.names[link].startswith("tpu-v3 chip") for link in route(w, 1024, 1424))


def test_chips_without_links_use_the_boards_bandwidth() -> None:
    w = Wires(load_array("accpar-mixed"))
    (link,) = route(w, 0, 2)
    assert w.names[link] == "board0 chip(0,0) +y"
    assert w.bandwidth[link] == 1e9
    w = Wires(load_array("ethernet-100g", ["devices.0.device=tpu-v2"]))
    assert w.bandwidth[route(w, 0, 2)[0]] == 62e9


def test_the_published_trees_splits_have_their_accelerators_bandwidth() -> None:
    w = Wires(load_array("accpar-mixed"))
    group = w.array.group
    while group.size > 1:
        first, second = group.halves()
        sides = ranges(group)
        for half, side, other in ((first, *sides), (second, *sides[::-1])):
            ports = sum(count * d.network_bytes_per_s for d, count in half.kinds)
            assert w.injection_bytes_per_s(side, other) == ports
        group = first


@settings(deadline=None)
@given(wires(most=9))
def test_injection_is_what_the_wires_between_halves_carry(w: Wires) -> None:
    """Against the links that routes between the halves use, for fabrics with links to cut."""
    direct = ("ring", "torus", "mesh", "fully_connected")

    def follow(group: Group, start: int) -> None:
        if group.size == 1:
            return
        sides = ranges(group, start)
        one_kind = len(group.kinds) == 1
        for side, other in (sides, sides[::-1]):
            got = w.injection_bytes_per_s(side, other)
            assert got > 0
            if w.topology.kind in direct and (one_kind or w.topology.joins == "boards"):
                assert got == pytest.approx(cut(w, side, other) or shared(w, side, other))
        for half, side in zip(group.halves(), sides, strict=True):
            follow(half, side.start)

    follow(w.array.group, 0)


def shared(w: Wires, first: range, second: range) -> float:
    """Messages between those opposite each other, cut to crumbs and added link by link."""
    crumbs = len(first) * len(second)
    load = [0.0] * len(w.bandwidth)
    for crumb in range(crumbs):
        for link in route(w, first[crumb // len(second)], second[crumb // len(first)]):
            load[link] += 1.0
    return crumbs / float((np.array(load) / w.bandwidth).max())


def cut(w: Wires, first: range, second: range) -> float:
    """Links that are a whole route from one set to the other, added up."""
    links = {route(w, a, b) for a in first for b in second}
    return float(sum(w.bandwidth[one[0]] for one in links if len(one) == 1))


def test_injection_by_topology() -> None:
    def of(kind: str, shape: tuple[int, ...] = ()) -> float:
        w = nodes(16, kind, shape)
        return w.injection_bytes_per_s(*ranges(w.array.group))

    assert of("switch") == of("tree") == 8e9
    assert of("ring") == 2e9
    assert of("torus", (4, 4)) == 8e9
    assert of("mesh", (4, 4)) == 4e9
    assert of("fully_connected") == 64e9
    assert of("bus") == 0.5e9
    bus = nodes(16, "bus")
    quarter = bus.array.group.halves()[0].halves()[0]
    assert bus.injection_bytes_per_s(*ranges(quarter)) == 0.5e9 / 4


def test_injection_inside_boards_and_chips() -> None:
    w = Wires(load_array("tpu-v2-pod"))
    assert w.injection_bytes_per_s(range(4), range(4, 8)) == 2 * 62e9
    assert w.injection_bytes_per_s(range(2), range(2, 4)) == 62e9
    # a byte each way: both written and read
    assert w.injection_bytes_per_s(range(1), range(1, 2)) == 700e9 / 4
    loads = w.loads([0, 1], [1, 0])
    assert 1 / (loads / w.bandwidth).max() == pytest.approx(700e9 / 4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("joins", ["boards", "chips"])
@settings(deadline=None)
@given(st.integers(2, 40))
def test_injection_is_never_nothing(kind: str, joins: Joins, count: int) -> None:
    group = Group(((device(chips=3), count),))
    w = Wires(Array("any", "", group, (), Topology(kind, joins)))
    while group.size > 1:
        first, second = ranges(group)
        assert w.injection_bytes_per_s(first, second) > 0
        assert w.injection_bytes_per_s(second, first) > 0
        group = group.halves()[0]


@pytest.mark.parametrize("name", ["accpar-mixed", "tpu-mixed", "tpu-v3-pod"])
def test_wires_of_large_arrays_are_few_calls(name: str) -> None:
    """Cores are numbers in columns: a few calls for each of 2,048 would be a loop over them."""
    array = load_array(name)

    def joined() -> None:
        w = Wires(array)
        w.loads(np.arange(w.cores), np.roll(np.arange(w.cores), 1))

    joined()
    assert calls(joined) < 10 * array.group.cores
