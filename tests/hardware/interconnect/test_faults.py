"""What is wrong with a topology for its accelerators, from values made by hand."""

import re
from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardware import ChipLinks, Group, Topology
from hardware.interconnect.faults import faults_of
from hardware.topology import TIERS, Tier
from tests.wiring import KINDS, device

BOARD = replace(device(chips=4), links=ChipLinks(4, 3e9))
FOUR = Group(((BOARD, 4),))


def found(topology: Topology, group: Group = FOUR) -> list[tuple[str, str]]:
    return list(faults_of(topology, group))


@pytest.mark.parametrize("kind", KINDS)
def test_a_plain_topology_fits_boards_of_any_number(kind: str) -> None:
    for count in (1, 2, 7, 64):
        assert found(Topology(kind), Group(((BOARD, count),))) == []


@pytest.mark.parametrize(
    ("key", "change", "owners", "words"),
    [
        ("shape", {"shape": (4, 1)}, ("torus", "mesh"), "only a torus or a mesh has a shape"),
        ("factor", {"factor": 1.5}, ("tree",), "only a tree has a factor"),
        ("two_way", {"two_way": False}, ("ring",), "only a ring can have links in one direction"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_keys_that_mean_nothing_to_others(
    key: str, change: dict[str, object], owners: tuple[str, ...], words: str, kind: str
) -> None:
    faults = found(replace(Topology(kind), **change))  # type: ignore[arg-type]
    wanted = [] if kind in owners else [(f"topology.{key}", f"{words}, not a {kind}")]
    assert [(where, said.partition(";")[0]) for where, said in faults] == wanted


@given(st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(1, 60))
def test_a_shape_has_as_many_places_as_there_are_boards(shape: list[int], count: int) -> None:
    faults = found(Topology("mesh", shape=tuple(shape)), Group(((BOARD, count),)))
    if prod(shape) == count:
        assert faults == []
    else:
        ((key, words),) = faults
        assert key == "topology.shape"
        assert words.startswith(f"{shape} is {prod(shape)} nodes; there are {count} boards; ")
        assert prod(map(int, re.findall(r"\d+", words.split("takes")[1]))) == count


def test_counts_are_boards_whatever_the_bisection_ends_in() -> None:
    cores = replace(FOUR, leaf="core")
    assert found(Topology("torus", shape=(2, 2)), cores) == []
    assert len(found(Topology("torus", shape=(4, 4)), cores)) == 1


def test_every_kind_of_device_is_joined_by_itself_and_checked_by_itself() -> None:
    big, small = replace(BOARD, name="big", chips=8), replace(BOARD, name="small", chips=1)
    group = Group(((big, 2), (small, 3)))
    faults = found(Topology("torus", "chips", shape=(4, 4)), group)
    ((key, words),) = faults
    assert key == "topology.shape"
    assert words.startswith("[4, 4] is 16 nodes; there are 3 small chips, each kind of device has")


def test_all_faults_come_at_once() -> None:
    topology = Topology("fully_connected", "chips", (2, 2), 1.0, two_way=False)
    keys = [key for key, _ in found(topology, Group(((BOARD, 1024),)))]
    assert keys == [
        "topology.shape",
        "topology.factor",
        "topology.two_way",
        "topology.kind",
        "topology.kind",
    ]


def test_links_are_needed_unless_the_topology_brings_a_bandwidth() -> None:
    bare = Group(((replace(BOARD, links=None), 4),))
    ((key, words),) = found(Topology("ring", "chips"), bare)
    assert key == "topology.joins"
    assert words == 'd has no links between chips; give it links or join "boards"'
    assert found(Topology("ring", "chips", bytes_per_s=1e9), bare) == []


def test_a_chip_has_so_many_links_and_no_more() -> None:
    three = Group(((replace(BOARD, links=ChipLinks(3, 1e9)), 4),))
    assert found(Topology("ring", "chips"), three) == []
    assert found(Topology("torus", "chips", (8, 2)), three) == []
    ((key, words),) = found(Topology("torus", "chips"), three)
    assert key == "topology.kind"
    assert words == "a torus of 16 chips needs 4 links per chip; d has 3"


def test_as_many_cables_as_a_chip_has_links() -> None:
    """Unless the tier has a bandwidth of its own."""
    two = Group(((replace(BOARD, chips=1, links=ChipLinks(2, 1e9)), 4),))
    ring, more = ((0, 1), (1, 2), (2, 3), (3, 0)), ((0, 1), (1, 2), (2, 3), (3, 1))
    tier = Tier("cables", 4, cables=ring)
    assert found(Topology(TIERS, "chips", levels=(tier,)), two) == []
    tier = replace(tier, cables=more)
    ((key, words),) = found(Topology(TIERS, "chips", levels=(tier,)), two)
    assert key == "topology.levels.0.cables"
    assert words == "node 1 has 3 cables; d has 2 links per chip"
    tier = replace(tier, bytes_per_s=1e9)
    assert found(Topology(TIERS, "chips", levels=(tier,)), two) == []


def test_what_is_no_topology_has_one_fault() -> None:
    ((key, words),) = found(Topology("star", shape=(9,), two_way=False))
    assert key == "topology.kind"
    assert words.startswith("'star' is none of tree, bus, switch")
