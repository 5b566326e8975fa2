"""Cores that are copies of each other: which ones are, and how little is left to follow."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from simulator.collectives.bits import axes_in, corners, packed, spread
from simulator.collectives.cubes import cube_of
from simulator.collectives.sharing import sharing

from hardware import Wires, load_array
from simulator.collectives.groups import Anywhere, Mirrored, groups_of
from simulator.collectives.lattice import Rows
from simulator.collectives.messages import EVERYONE, exchange
from tests.planners.hierarchy.test_any_graph import weighed
from tests.wiring import nodes


@given(st.integers(0, 1 << 12), st.lists(st.integers(0, 1 << 12), min_size=1))
def test_bits_are_moved_together_and_back(axes: int, numbers: list[int]) -> None:
    bits = np.array(numbers)
    together = packed(bits, axes)
    for number, found in zip(numbers, together.tolist(), strict=True):
        assert found == sum((number >> axis & 1) << i for i, axis in enumerate(axes_in(axes)))
    assert (spread(together, axes) == bits & axes).all()
    weights = [3**i for i in range(13)]
    wanted = [sum(w for i, w in enumerate(weights) if number >> i & 1) for number in numbers]
    assert weighed(bits, weights).tolist() == wanted
    assert weighed(np.tile(bits, 20), weights).tolist() == wanted * 20


def test_corners_are_all_combinations() -> None:
    assert corners(0b1010).tolist() == [0b0000, 0b0010, 0b1000, 0b1010]
    assert corners(0).tolist() == [0]


def test_the_cube_of_the_modules_text() -> None:
    """Eight cores on four chips of two boards: chips differ at 110, boards at 100."""
    w = Wires(load_array("tpu-v3-8", ["devices.0.count=2", "devices.0.chips=2"]))
    assert w.cores == 8
    cube = cube_of(w, 0, (1, 2, 4))
    assert cube is not None
    assert cube.units == (0b110, 0)  # chips, and kinds as chips are joined
    assert cube.cores(np.array([0b101])).tolist() == [5]


ROWS = np.arange(512).reshape(-1, 8)


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("topology.factor=1",),
        ("topology.kind=switch",),
        ("topology.kind=bus",),
        ("topology.kind=torus",),
        ("topology.kind=mesh",),
        ("topology.kind=fully_connected",),
    ],
)
def test_groups_of_alike_cores_are_followed_once(changes: tuple[str, ...]) -> None:
    w = Wires(load_array("accpar-homogeneous", ["devices.0.count=64", *changes]))
    for rows in (ROWS, ROWS.T, ROWS[::2], ROWS[:, ::4], ROWS[8:16, :4]):
        assert isinstance(groups_of(w, Rows(rows)), Mirrored)


def test_others_are_followed_one_by_one() -> None:
    w = Wires(load_array("accpar-mixed"))
    first_of_kind_1 = int(np.argmax(w.kind))
    unlike = np.array([[0, first_of_kind_1], [1, first_of_kind_1 + 1]])
    for rows in (
        ROWS[:3],
        ROWS[:, :3],
        ROWS[[0, 1, 2, 4]],
        unlike,
        np.array([[0, 2, 1, 3]])[:, ::-1],
    ):
        assert isinstance(groups_of(w, Rows(rows)), Anywhere)
    uneven = nodes(3, "tree")  # subtrees of two and of one
    assert isinstance(groups_of(uneven, Rows(np.array([[0, 1]]))), Mirrored)
    assert isinstance(groups_of(uneven, Rows(np.array([[0, 1], [1, 2]]))), Anywhere)


def test_links_that_copies_load_alike_are_one() -> None:
    """What is followed grows with the logarithm of an array that is sent through its tree."""
    sizes = {}
    for boards in (256, 1024, 4096):
        w = Wires(load_array("accpar-homogeneous", [f"devices.0.count={boards}"]))
        members = groups_of(w, Rows(np.arange(w.cores)[np.newaxis]))
        sizes[boards] = [
            members.carry(messages).flows.size for messages in (EVERYONE, exchange(w.cores // 2))
        ]
    # a level of the tree more for twice the boards: a link up and one down
    assert sizes[1024] == [size + 4 for size in sizes[256]]
    assert sizes[4096] == [size + 4 for size in sizes[1024]]
    assert max(sizes[4096]) < 60


def test_groups_that_share_no_links_are_timed_as_one() -> None:
    """Of chips on a board there is one group a board; those across boards share a tree's links."""
    w = Wires(load_array("accpar-homogeneous", ["devices.0.count=64"]))
    inside, across = groups_of(w, Rows(ROWS)), groups_of(w, Rows(ROWS.T))
    assert inside.count == 64
    assert across.count == 8
    for groups, free in ((inside, 0), (across, 3)):
        few = sharing(groups)
        assert isinstance(few, Mirrored)
        assert few.free.bit_count() == free
        assert few.count == groups.count  # for what depends on how many there are


def test_nothing_is_left_out_where_some_links_may_be_slower() -> None:
    """Half of a ring has half of the bandwidth: copies along it are not all alike."""
    counts = ["devices.0.count=8", "devices.1.count=8"]
    for kind, whole in (("ring", False), ("tree", True)):
        w = Wires(load_array("accpar-mixed", [*counts, f"topology.kind={kind}"]))
        groups = groups_of(w, Rows(np.arange(64).reshape(8, 8)))
        assert isinstance(groups, Mirrored)
        assert (sharing(groups) is not groups) == whole
