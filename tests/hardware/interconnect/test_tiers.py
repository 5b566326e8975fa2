"""Tiers of switches, rings and meshes: which way messages go, and what a side can send."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import Array, Group, SpecError, Topology, Wires, load_array, wires_of
from hardware.topology import Joins, Tier, TierKind
from planners.built_in import data_parallel
from simulator import DEPLOYED, simulate
from tests.hardware.conftest import Write
from tests.hardware.specs import TIERS
from tests.routes import route
from tests.wiring import device
from workloads import load_network

KINDS: tuple[TierKind, ...] = ("switch", "ring", "mesh", "torus", "fully_connected")


def wires(*levels: Tier, joins: Joins = "boards") -> Wires:
    boards = prod(tier.members for tier in levels)
    group = Group(((device(), boards),))
    return Wires(Array("tiered", "", group, topology=Topology("tiers", joins, levels=levels)))


@st.composite
def tiered(draw: st.DrawFn) -> tuple[Tier, ...]:
    """Two or three tiers with up to 24 nodes together."""
    levels, below = [], 1
    for _ in range(draw(st.integers(2, 3))):
        kind = draw(st.sampled_from(KINDS))
        members = draw(st.integers(2, 4 if below < 6 else 2))
        switch = kind == "switch"
        rails = draw(st.sampled_from([r for r in (1, 2, below) if not below % r])) if switch else 1
        over = draw(st.sampled_from([1.0, 2.0, 3.0])) if switch else 1.0
        bytes_per_s = draw(st.sampled_from([1e9, 3e9]))
        levels.append(Tier(kind, members, bytes_per_s, 1e-6, rails, over))
        below *= members
    return tuple(levels)


@given(tiered(), st.data())
def test_a_message_takes_the_innermost_tier_that_joins_its_ends(
    levels: tuple[Tier, ...], data: st.DataObject
) -> None:
    w = wires(*levels)
    each = w.cores // prod(tier.members for tier in levels)
    source, target = (data.draw(st.integers(0, w.cores - 1)) for _ in "ab")
    a, b, number, below = source // each, target // each, 0, 1
    if a == b:
        return
    while a // (below * levels[number].members) != b // (below * levels[number].members):
        below *= levels[number].members
        number += 1
    tier = levels[number]
    names = [w.names[link] for link in route(w, source, target)]
    assert {float(w.bandwidth[link]) for link in route(w, source, target)[:1]} == {tier.bytes_per_s}
    if tier.kind == "switch":
        ports = [n // below * tier.rails + n % below * tier.rails // below for n in (a, b)]
        name = "board" if number == 0 else f"tier {number} port"
        wanted = [f"{name}{ports[0]} up", f"{name}{ports[1]} down"]
        if tier.oversubscription > 1:
            wanted.insert(1, f"{name}s' switch {a // (below * tier.members)}")
        assert names == wanted
    counted = np.zeros(len(w.bandwidth))
    np.add.at(counted, list(route(w, source, target)), 1)
    assert w.loads(source, target).tolist() == counted.tolist()


def test_what_a_half_sends_to_the_other() -> None:
    """Two nodes of four on 10 B/s, joined by two rails of 3 B/s, and by one switch of half."""
    inner, outer = Tier("switch", 4, 10.0), Tier("switch", 2, 3.0, rails=2)
    whole = wires(inner, outer)
    each = whole.cores // 8
    halves = range(4 * each), range(4 * each, 8 * each)
    quarters = range(2 * each), range(2 * each, 4 * each)
    assert whole.injection_bytes_per_s(*halves) == 2 * 3.0
    assert whole.injection_bytes_per_s(*quarters) == 2 * 10.0
    over = wires(inner, Tier("switch", 2, 3.0, rails=2, oversubscription=4.0))
    assert over.injection_bytes_per_s(*halves) == 4 * 3.0 / 4 / 2
    assert over.injection_bytes_per_s(*quarters) == 2 * 10.0


def test_a_spec_says_tiers(write: Write) -> None:
    """A message of s bytes takes 1 us + (s + 1 MB) / 50 GB/s in the first; 4 units of 4 boards."""
    array = load_array(write(TIERS))
    inner, outer = array.topology.levels
    assert (array.topology.kind, inner.kind, outer.kind) == ("tiers", "switch", "ring")
    assert inner.bytes_per_s == 50e9
    assert inner.latency_s == pytest.approx(1e-6 + 1e6 / 50e9)
    assert (outer.members, Wires(array).names[-8]) == (0, "tier 1 port0 +x")
    changed = load_array(write(TIERS), ["topology.levels.0.bandwidth=8 GB/s"])
    assert changed.topology.levels[0].bytes_per_s == 4e9


def test_halves_that_part_a_node_are_not_interchangeable() -> None:
    """Whole nodes are, and whatever is within one."""
    w = Wires(load_array("h100-cluster", ["nodes=3", "devices.0.count=4"]))
    for first, cores, alike in (
        *((0, 6, False), (0, 3, False), (6, 3, False), (2, 4, False), (3, 1, False)),
        *((0, 4, True), (4, 4, True), (0, 1, True), (2, 1, True), (0, 2, True), (8, 2, True)),
    ):
        assert w.interchangeable(first, first + cores, cores) is alike, (first, cores)


@given(st.data(), tiered())
def test_ranges_are_interchangeable_where_changing_places_changes_no_load(
    data: st.DataObject, levels: tuple[Tier, ...]
) -> None:
    """If they are, any messages load as many links as before by as much."""
    w = wires(*levels)
    cores = data.draw(st.integers(1, w.cores // 2))
    first = data.draw(st.integers(0, w.cores - 2 * cores))
    if not w.interchangeable(first, first + cores, cores):
        return
    other = np.arange(w.cores)
    one, two = slice(first, first + cores), slice(first + cores, first + 2 * cores)
    other[one], other[two] = other[two].copy(), other[one].copy()
    ends = st.lists(st.integers(0, w.cores - 1), min_size=4, max_size=4)
    for _ in range(5):
        a, b = (np.array(data.draw(ends)) for _ in "ab")
        assert sorted(w.loads(a, b)) == sorted(w.loads(other[a], other[b]))
        assert w.message_latency_s(a, b) == w.message_latency_s(other[a], other[b])


@pytest.mark.parametrize("outer", ['bandwidth = "100 Gbit/s"\noversubscription = 2', "rails = 0"])
def test_the_outermost_switch_joins_all_kinds(write: Write, outer: str) -> None:
    """Devices that differ in memory alone are wired as one kind: none has ports of its own."""
    text = """
        kind = "array"
        {entries}
        [topology]
        joins = "chips"
        [[topology.levels]]
        kind = "switch"
        members = 4
        [[topology.levels]]
        kind = "switch"
        {outer}
        """
    entry = '[[devices]]\ndevice = "a100-40"\nnetwork.bandwidth = "50 Gbit/s"\n'
    entry += 'hbm.capacity = "{1} GiB"\ncount = {0}\n'
    parts = ([8], [4, 4]), ([16], [4, 12]), ([16], [8, 4, 4])
    for whole, several in parts:
        one, other = (
            Wires(load_array(write(dedented(text, map(entry.format, counts, (40, 41, 42)), outer))))
            for counts in (whole, several)
        )
        assert len(other.array.group.kinds) == len(several)
        assert sorted(one.bandwidth) == sorted(other.bandwidth)
        ends = np.array([(a, b) for a in range(one.cores) for b in range(one.cores) if a != b]).T
        assert (one.loads(*ends).max(), one.loads(*ends).sum()) == (
            other.loads(*ends).max(),
            other.loads(*ends).sum(),
        )
        for source, target in ends.T:
            ways = (w.bandwidth[list(route(w, source, target))].tolist() for w in (one, other))
            assert next(ways) == next(ways)


def dedented(text: str, entries: Iterable[str], outer: str) -> str:
    lines = text.format(entries="\n".join(entries), outer=outer).splitlines()
    return "\n".join(line.strip() for line in lines)


SIDES = {"torus": "shape = [4, 2]", "mesh": "shape = [4, 2]", "ring": "", "switch": ""}


@pytest.mark.parametrize("kind", SIDES)
@pytest.mark.parametrize("joins", ["boards", "chips"])
def test_one_tier_is_the_topology_of_that_kind(kind: str, joins: str, write: Write) -> None:
    """Of chips without a bandwidth too: a torus has the links of one, a switch those of all."""
    rate = 'bandwidth = "100 Gbit/s"' if joins == "boards" else ""
    of = f'kind = "{kind}"\n{SIDES[kind]}\n{rate}'
    head = 'kind = "array"\ndescription = "x"\nexecution = "deployed"\n[topology]\n'
    count = 2 if joins == "chips" else 8
    tail = f'\n[[devices]]\ndevice = "tpu-v3"\ncount = {count}\n'
    forms = (f'{of}\njoins = "{joins}"', f'joins = "{joins}"\n[[topology.levels]]\n{of}')
    arrays = [load_array(write(f"{head}{form}{tail}")) for form in forms]
    one, other = (wires_of(each).subnets[-1].fabric for each in arrays)
    assert one.bandwidth.tolist() == other.bandwidth.tolist()
    network = load_network("lenet")
    steps = [
        simulate(network, data_parallel(network, DEPLOYED.planned(each), 64), each, DEPLOYED)
        for each in arrays
    ]
    assert steps[0].iteration_s == steps[1].iteration_s


def test_a_tier_of_chips_has_no_more_links_than_these(write: Write) -> None:
    text = """kind = "array"
        description = "x"
        [topology]
        joins = "chips"
        [[topology.levels]]
        kind = "torus"
        shape = [4, 4, 4]
        [[devices]]
        device = "tpu-v3"
        count = 16"""
    with pytest.raises(SpecError, match="torus of 64 chips needs 6 links per chip; tpu-v3 has 4"):
        load_array(write(text))
    faster = text.replace("shape", 'bandwidth = "656 Gbit/s"\n        shape')
    assert load_array(write(faster)).topology.levels[0].bytes_per_s == 82e9
